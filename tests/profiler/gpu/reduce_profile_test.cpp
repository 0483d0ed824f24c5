#include <doctest/doctest.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "profiler/gpu/reduce.hpp"

namespace pipeplan {
namespace {

using enum LayerPass;

constexpr std::int64_t iteration_length = 100'000;

// Lays kernels one after the other; every iteration begins at a multiple of iteration_length.
class TraceMaker {
 public:
  explicit TraceMaker(std::int64_t micro_batch_size, std::int64_t iteration_count) {
    trace_.micro_batch_size = micro_batch_size;
    for (std::int64_t i = 0; i < iteration_count; ++i)
      trace_.iterations.push_back({i, (i + 1) * iteration_length, (i + 2) * iteration_length});
    for (const GpuIteration& iteration : trace_.iterations) free_.push_back(iteration.start + 10);
  }

  void run(std::int64_t iteration, std::int64_t layer, LayerPass pass, std::int64_t duration,
           std::int64_t micro_batch = 0) {
    std::int64_t& start = free_[static_cast<std::size_t>(iteration)];
    const auto id = static_cast<std::uint32_t>(trace_.work.size() + 1);
    trace_.launches.push_back({id, pack({iteration, {layer, pass, micro_batch}}), start - 5});
    trace_.work.push_back({.name = "k", .start = start, .end = start + duration, .correlation = id});
    start += duration + 10;
  }

  GpuTrace& trace() { return trace_; }

 private:
  GpuTrace trace_;
  std::vector<std::int64_t> free_;
};

Profile outline(std::size_t layer_count, const std::vector<std::int64_t>& sizes) {
  Profile profile;
  profile.model = std::string("chain");
  for (std::size_t i = 0; i < layer_count; ++i) {
    ProfiledLayer layer{.name = fmt::format("l{}", i), .kind = "linear"};
    for (const std::int64_t size : sizes)
      layer.costs.push_back({.micro_batch_size = size, .activation = Bytes{8}, .output = Bytes{16}});
    profile.layers.push_back(layer);
  }
  profile.edges = chain_edges(layer_count);
  return profile;
}

const LayerCost& cost(const ReducedProfile& reduced, std::int32_t layer, std::size_t size = 0) {
  return reduced.profile.layers[LayerId{layer}].costs[size];
}

// One layer, `iteration_count` iterations in which its forward takes 10.
GpuRecording calm(std::int64_t iteration_count) {
  TraceMaker maker(1, iteration_count);
  for (std::int64_t i = 0; i < iteration_count; ++i) maker.run(i, 0, forward, 10);
  return {outline(1, {1}), {maker.trace()}};
}

Error refused(const GpuRecording& recording) {
  const auto reduced = reduce(recording, "t.json");
  REQUIRE_FALSE(reduced.has_value());
  return reduced.error();
}

}  // namespace

TEST_CASE("reduce: a profile has the medians of the busy times over the iterations") {
  TraceMaker maker(1, 3);
  const std::int64_t forward_times[] = {100, 140, 110};
  for (std::int64_t i = 0; i < 3; ++i) {
    maker.run(i, 0, forward, forward_times[i]);
    maker.run(i, 1, forward, 50);
    maker.run(i, 1, backward_input, 60);
    maker.run(i, 1, backward_weight, 70 + i);
    maker.run(i, 0, backward_input, 80);
    maker.run(i, 0, optimizer, 9);
  }
  const auto reduced = reduce({outline(2, {1}), {maker.trace()}}, "t.json");
  REQUIRE(reduced.has_value());
  CHECK(cost(*reduced, 0).forward.count() == 110);
  CHECK(cost(*reduced, 0).backward_input.count() == 80);
  CHECK(cost(*reduced, 0).backward_weight.count() == 0);
  CHECK(cost(*reduced, 0).optimizer.count() == 9);
  CHECK(cost(*reduced, 0).samples == 3);
  // Of 100 + 80, 140 + 80, 110 + 80 the median is 190 and the distances from it are 10, 30, 0.
  CHECK(cost(*reduced, 0).spread_fraction == doctest::Approx(10.0 / 190));
  CHECK(cost(*reduced, 1).backward_weight.count() == 71);
  CHECK(cost(*reduced, 1).activation == Bytes{8});
}

TEST_CASE("reduce: an iteration of several micro-batches gives the time of one") {
  TraceMaker maker(4, 1);
  for (std::int64_t micro_batch = 0; micro_batch < 3; ++micro_batch) {
    maker.run(0, 0, forward, 100 + micro_batch * micro_batch, micro_batch);
    maker.run(0, 0, forward, 50, micro_batch);
  }
  const auto reduced = reduce({outline(1, {4}), {maker.trace()}}, "t.json");
  REQUIRE(reduced.has_value());
  CHECK(cost(*reduced, 0).forward.count() == 152);  // (100 + 101 + 104 + 3 * 50) / 3 = 151.67
}

TEST_CASE("reduce: a backward that the outline does not split is the sum of its parts") {
  TraceMaker maker(1, 1);
  maker.run(0, 0, forward, 10);
  maker.run(0, 0, backward_input, 20);
  maker.run(0, 0, backward_weight, 30);
  GpuRecording recording{outline(1, {1}), {maker.trace()}};
  recording.outline.layers[LayerId{0}].costs[0].backward_is_split = false;
  const auto reduced = reduce(recording, "t.json");
  REQUIRE(reduced.has_value());
  CHECK(cost(*reduced, 0).backward_input.count() == 20 + 30);
  CHECK(cost(*reduced, 0).backward_weight.count() == 0);
}

TEST_CASE("reduce: each trace fills the costs of its own micro-batch size, in any order") {
  TraceMaker small(1, 1), large(8, 1);
  small.run(0, 0, forward, 10);
  large.run(0, 0, forward, 70);
  const auto reduced = reduce({outline(1, {1, 8}), {large.trace(), small.trace()}}, "t.json");
  REQUIRE(reduced.has_value());
  CHECK(cost(*reduced, 0, 0).forward.count() == 10);
  CHECK(cost(*reduced, 0, 1).forward.count() == 70);
}

TEST_CASE("reduce: iterations that do not count are left out of the median") {
  TraceMaker maker(1, 3);
  for (std::int64_t i = 0; i < 3; ++i) maker.run(i, 0, forward, i == 0 ? 10 : 1000);
  maker.trace().overheads = {{"flush", 2 * iteration_length + 1, 4 * iteration_length - 1}};
  const auto reduced = reduce({outline(1, {1}), {maker.trace()}}, "t.json");
  REQUIRE(reduced.has_value());
  CHECK(cost(*reduced, 0).forward.count() == 10);
  CHECK(cost(*reduced, 0).samples == 1);
}

TEST_CASE("reduce: where overhead lies in every iteration they count all the same, with a warning") {
  TraceMaker maker(1, 3);
  for (std::int64_t i = 0; i < 3; ++i) maker.run(i, 0, forward, 10 * (i + 1));
  maker.trace().overheads = {{"flush", 1, 9 * iteration_length}};
  const auto reduced = reduce({outline(1, {1}), {maker.trace()}}, "t.json");
  REQUIRE(reduced.has_value());
  CHECK(cost(*reduced, 0).forward.count() == 20);
  CHECK(cost(*reduced, 0).samples == 3);
  REQUIRE_FALSE(reduced->warnings.empty());
  CHECK(reduced->warnings.front().message ==
        "the collector was at work in all 3 iterations at micro-batch size 1 (1 spans of overhead)");
}

TEST_CASE("reduce: what a plain iteration lasts beyond its kernels is shared out over them") {
  TraceMaker maker(1, 1);
  maker.run(0, 0, forward, 10);
  maker.run(0, 0, backward_input, 20);
  maker.trace().plain_iteration = Nanoseconds{10 + 20 + 2 * 7 + 1};
  const auto reduced = reduce({outline(1, {1}), {maker.trace()}}, "t.json");
  REQUIRE(reduced.has_value());
  CHECK(cost(*reduced, 0).forward.count() == 10 + 7);
  CHECK(cost(*reduced, 0).backward_input.count() == 20 + 7);
  CHECK(cost(*reduced, 0).backward_weight.count() == 0);
  CHECK(reduced->profile.source.setting(launch_gap_setting) == "7");
}

TEST_CASE("reduce: a plain iteration shorter than the traced kernels leaves no gap") {
  TraceMaker maker(1, 1);
  maker.run(0, 0, forward, 10);
  maker.trace().plain_iteration = Nanoseconds{9};
  CHECK(cost(*reduce({outline(1, {1}), {maker.trace()}}, "t.json"), 0).forward.count() == 10);
}

TEST_CASE("reduce: the profile of a fabricated trace says so, of a recorded one it does not") {
  GpuRecording recording = calm(1);
  CHECK(reduce(recording, "t.json")->profile.source.setting(trace_setting).empty());
  recording.traces[0].fabricated = true;
  CHECK(reduce(recording, "t.json")->profile.source.setting(trace_setting) == "fabricated");
}

TEST_CASE("reduce: a recording that was written and read gives the same profile") {
  const GpuRecording recording = calm(4);
  const auto reread = gpu_recording_from_json(to_json(recording), "t.json");
  REQUIRE(reread.has_value());
  CHECK(reduce(*reread, "t.json")->profile == reduce(recording, "t.json")->profile);
}

TEST_CASE("reduce: a trace with dropped records is refused") {
  GpuRecording recording = calm(2);
  recording.traces[0].dropped_records = 17;
  CHECK(refused(recording).where == "t.json#/traces/0");
  CHECK(refused(recording).message == "lacks 17 records that the collector dropped, wanted all");
}

TEST_CASE("reduce: a trace none of whose iterations counts is refused with the reasons") {
  GpuRecording recording = calm(2);
  recording.traces[0].work[0].start = recording.traces[0].work[0].end = 0;
  recording.traces[0].work[1].end += iteration_length;
  CHECK(
      refused(recording).message ==
      "has no iteration that counts: of 2, 2 are disturbed (1 untimed records, 1 outside of their iteration, "
      "0 spans of overhead)");
}

TEST_CASE("reduce: a layer that did nothing in a forward is refused by name") {
  GpuRecording recording = calm(3);
  recording.traces[0].work.erase(recording.traces[0].work.begin() + 1);
  CHECK(refused(recording).message == "has no work of layer 'l0' in its forward in iteration 1, wanted some");
}

TEST_CASE("reduce: memory alone is no work in a forward") {
  GpuRecording recording = calm(1);
  GpuTrace& trace = recording.traces[0];
  trace.memory = {{true, 1, 8, trace.work[0].start, trace.work[0].correlation, 0}};
  CHECK(reduce(recording, "t.json").has_value());
  trace.work.clear();
  CHECK(refused(recording).message == "has no work of layer 'l0' in its forward in iteration 0, wanted some");
}

TEST_CASE("reduce: work of a layer that the outline does not have is refused") {
  GpuRecording recording = calm(1);
  recording.traces[0].launches[0].tag = pack({0, {3, forward, 0}});
  CHECK(refused(recording).message == "has work of layer 3, but the outline has 1 layers");
}

TEST_CASE("reduce: traces and costs must be of the same micro-batch sizes") {
  GpuRecording recording = calm(1);
  recording.outline = outline(1, {1, 2});
  CHECK(refused(recording).where == "t.json#/traces");
  CHECK(refused(recording).message ==
        "are of micro-batch sizes 1, but layer 'l0' of the outline has costs at 1, 2");
  recording = calm(1);
  recording.traces.push_back(recording.traces[0]);
  CHECK(refused(recording).message ==
        "are of micro-batch sizes 1, 1, but layer 'l0' of the outline has costs at 1");
}

TEST_CASE("reduce: warns of work that no layer launched, with the longest of it") {
  GpuRecording recording = calm(1);
  CHECK(reduce(recording, "t.json")->warnings.empty());
  for (const auto& [name, duration] : {std::pair{"memset", 5}, std::pair{"stray", 700}})
    recording.traces[0].work.push_back(
        {.name = name, .start = iteration_length + 500, .end = iteration_length + 500 + duration});
  const auto reduced = reduce(recording, "t.json");
  REQUIRE(reduced->warnings.size() == 1);
  CHECK(reduced->warnings[0].code == WarningCode::unattributed_work);
  CHECK(reduced->warnings[0].message ==
        "2 launches at micro-batch size 1 belong to no layer (705 ns), most time in 'stray' (700 ns)");
}

TEST_CASE("reduce: warns of spreads above 5 percent, naming the widest") {
  // Distances from the median 100 are 0, 5 or 6, 5 or 6: the spread is 5 or 6 percent.
  const auto noise = [](std::int64_t distance) {
    TraceMaker maker(1, 3);
    for (std::int64_t i = 0; i < 3; ++i) {
      maker.run(i, 0, forward, 100 + (i - 1) * distance);
      maker.run(i, 1, forward, 100);
    }
    return reduce({outline(2, {1}), {maker.trace()}}, "t.json")->warnings;
  };
  CHECK(noise(5).empty());
  REQUIRE(noise(6).size() == 1);
  CHECK(noise(6)[0].code == WarningCode::noisy_times);
  CHECK(noise(6)[0].message ==
        "times of 1 of 2 layers at micro-batch size 1 spread by over 5 %, most of all 'l0' by 6.0 %");
}

}  // namespace pipeplan
