#include "profiler/gpu/trace.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "models/zoo/zoo.hpp"
#include "tests/support/published_schema.hpp"
#include "tests/support/random.hpp"

namespace pipeplan {
namespace {

Profile outline() {
  Profile profile;
  profile.model = "pair";
  profile.model_spec = MlpSpec{};
  profile.source = {"measured", "NVIDIA H200", "pipeplan cupti profiler", {{"partition", "32 of 132 SMs"}}};
  for (const char* name : {"a", "b"}) {
    ProfiledLayer layer{.name = name, .kind = "linear", .parameter_count = 3, .parameter_bytes = Bytes{12}};
    layer.costs = {{.micro_batch_size = 2, .activation = Bytes{8}, .output = Bytes{16}}};
    profile.layers.push_back(layer);
  }
  profile.edges = chain_edges(2);
  return profile;
}

std::uint64_t tag(std::int64_t iteration, std::int64_t layer, LayerPass pass, std::int64_t micro_batch) {
  return pack({iteration, {layer, pass, micro_batch}});
}

// Everything a recording can hold.
GpuRecording full_recording() {
  GpuTrace trace;
  trace.device = "NVIDIA H200";
  trace.partition = "32 of 132 SMs, green context";
  trace.micro_batch_size = 2;
  trace.iterations = {{0, 100, 200}, {1, 200, 300}};
  trace.work = {{GpuWorkKind::kernel, "gemm", 110, 120, 7, 1, 13, 0},
                {GpuWorkKind::copy, "", 0, 0, 4294967295, 1, 14, 64},
                {GpuWorkKind::kernel, "add", 210, 220, 8, 1, 13, 0},
                {GpuWorkKind::peer_copy, "", 230, 240, 9, 2, 15, 128},
                {GpuWorkKind::set, "", 250, 251, 10, 1, 13, 32}};
  trace.launches = {{7, tag(0, 0, LayerPass::forward, 0), 105},
                    {4294967295, tag(255, 4294967295, LayerPass::transfer, 65535), 0}};
  trace.memory = {{true, 0x7f0000000000, 512, 104, 7, 1024}, {false, 0x7f0000000000, 512, 125, 8, 0}};
  trace.plain_iteration = Nanoseconds{4321};
  trace.overheads = {{"buffer flush", 160, 170}, {"", 180, 180}};
  trace.dropped_records = 3;
  trace.fabricated = true;
  return {outline(), {trace, GpuTrace{}}};
}

Result<GpuRecording> reread(const GpuRecording& recording) {
  return gpu_recording_from_json(to_json(recording), "t.json");
}

template<class Change>
Error refused(Change change) {
  Json json = to_json(full_recording());
  change(json);
  const auto recording = gpu_recording_from_json(json, "t.json");
  REQUIRE_FALSE(recording.has_value());
  return recording.error();
}

}  // namespace

TEST_CASE("pack: iteration, layer, micro-batch and pass lie side by side in 8, 32, 16 and 8 bits") {
  CHECK(tag(1, 2, LayerPass::backward_weight, 3) == 0x01'00000002'0003'02);
  CHECK(tag(255, 4294967295, LayerPass::other, 65535) == 0xff'ffffffff'ffff'05);
  CHECK(tag(0, 0, LayerPass::forward, 0) == 0);
}

TEST_CASE("pack: iterations count modulo 256 and micro-batches modulo 65536") {
  CHECK(tag(256 + 7, 1, LayerPass::forward, 0) == tag(7, 1, LayerPass::forward, 0));
  CHECK(tag(7, 1, LayerPass::forward, 65536 + 2) == tag(7, 1, LayerPass::forward, 2));
}

TEST_CASE("unpack: gives back every tag that fits") {
  const std::uint64_t seed = 11;
  INFO("seed " << seed);
  test::Random random(seed);
  for (int i = 0; i < 500; ++i) {
    const LaunchTag given{random.between(0, 255),
                          {random.between(0, 4294967295), static_cast<LayerPass>(random.between(0, 5)),
                           random.between(0, 65535)}};
    CHECK(unpack(pack(given)) == given);
  }
}

TEST_CASE("unpack: a pass that there is not becomes other") {
  CHECK(unpack(0xc8).label.pass == LayerPass::other);
  CHECK(unpack(6).label.pass == LayerPass::other);
}

TEST_CASE("gpu trace: writing then reading gives an equal value, with everything it can hold") {
  const GpuRecording recording = full_recording();
  CHECK(reread(recording).value() == recording);
  CHECK(to_json(reread(recording).value()).dump() == to_json(recording).dump());
  const auto parsed = parse_json(document_text(to_json(recording)), "t.json");
  REQUIRE(parsed.has_value());
  CHECK(gpu_recording_from_json(*parsed, "t.json").value() == recording);
}

TEST_CASE("gpu trace: each kernel name is written once") {
  GpuRecording recording = full_recording();
  GpuTrace& trace = recording.traces.front();
  trace.work.assign(1000, trace.work.front());
  const Json names = to_json(recording)["traces"][0]["names"];
  REQUIRE(names.size() == 1);
  CHECK(names[0].get<std::string>() == "gemm");
  CHECK(reread(recording).value() == recording);
}

TEST_CASE("gpu trace: columns of unequal length are refused by name") {
  const Error error = refused([](Json& json) { json["traces"][0]["work"]["end_ns"].erase(0); });
  CHECK(error.where == "t.json#/traces/0/work/end_ns");
  CHECK(error.message == "has 4 entries, the column before it has 5");
}

TEST_CASE("gpu trace: values that do not fit are refused with their row") {
  const Error name = refused([](Json& json) { json["traces"][0]["work"]["name"][2] = 3; });
  CHECK(name.where == "t.json#/traces/0/work/name/2");
  CHECK(name.message == "is 3, but there are 3 names");
  const Error id = refused([](Json& json) { json["traces"][0]["launches"]["correlation"][1] = 4294967296; });
  CHECK(id.where == "t.json#/traces/0/launches/correlation/1");
  CHECK(id.message == "is 4294967296, wanted at most 4294967295");
  const Error pass = refused([](Json& json) { json["traces"][0]["launches"]["pass"][0] = "backward"; });
  CHECK(pass.where == "t.json#/traces/0/launches/pass/0");
  CHECK(pass.message.starts_with("is 'backward', wanted one of forward, backward_input"));
}

TEST_CASE("gpu trace: iterations ascend and do not overlap") {
  CHECK(refused([](Json& json) { json["traces"][0]["iterations"][1]["number"] = 0; }).message ==
        "is 0 after 0, wanted ascending numbers");
  CHECK(refused([](Json& json) { json["traces"][0]["iterations"][1]["start_ns"] = 199; }).message ==
        "is 199, before the iteration before it ends (200)");
  CHECK(refused([](Json& json) { json["traces"][0]["iterations"][1]["end_ns"] = 150; }).message ==
        "is 150, before start_ns (200)");
}

TEST_CASE("gpu trace: a fault in the outline is shown where it stands in the trace") {
  CHECK(refused([](Json& json) { json["outline"]["layers"][1]["name"] = ""; }).where ==
        "t.json#/outline/layers/1/name");
  CHECK(refused([](Json& json) { json.erase("outline"); }).where == "t.json#/outline");
  CHECK(refused([](Json& json) { json["schema"] = "pipeplan.profile/1"; }).where == "t.json#/schema");
}

TEST_CASE("schema: the schema and the reader of GPU traces refuse the same documents") {
  const test::PublishedSchema schema("gpu-trace.schema.json");
  // A fault that a schema cannot see: how columns, rows, iterations and the outline's layers fit together.
  const test::BeyondSchema beyond = [](const Error& error) {
    return test::says(error, {"the column before it", "names", "wanted ascending", "before the iteration",
                              "before start_ns", "already the name", "add up to"});
  };
  const auto read = [](const Json& json) { return test::error_of(gpu_recording_from_json(json, "t.json")); };
  const test::Agreement agreement = test::compare(schema, to_json(full_recording()), read, beyond);
  CHECK(agreement.accepted > 200);
  CHECK(agreement.refused > 500);
}

}  // namespace pipeplan
