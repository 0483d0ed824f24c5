#include "profiler/cpu_profiler.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "models/layers/kernel_build.hpp"
#include "models/zoo/zoo.hpp"

namespace pipeplan {
namespace {

ProfileOptions few_samples(std::vector<std::int64_t> sizes) {
  ProfileOptions options;
  options.micro_batch_sizes = std::move(sizes);
  options.stopping = {.warm_ups = 1, .least = 3, .most = 3};
  return options;
}

std::int64_t rounded_to_64(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

TEST_CASE("cpu profiler: every layer of a transformer is measured at every size, smallest first") {
  const ModelGraph model =
      build_model(TransformerSpec{.blocks = 2, .hidden = 16, .heads = 2, .sequence = 8, .vocabulary = 11})
          .value();
  const auto profiling = profile_model(model, few_samples({4, 1}));
  REQUIRE(profiling.has_value());
  const Profile& profile = profiling->profile;
  REQUIRE(profile.layers.size() == 1 + 2 * 2 + 3);
  CHECK(profile.model_spec == model.spec());
  for (const ProfiledLayer& layer : profile.layers) {
    INFO(layer.name);
    REQUIRE(layer.costs.size() == 2);
    CHECK(layer.costs[0].micro_batch_size == 1);
    CHECK(layer.costs[1].micro_batch_size == 4);
    for (const LayerCost& cost : layer.costs) {
      CHECK(cost.forward > Nanoseconds{0});
      CHECK(cost.samples == 3);
      CHECK(cost.activation.value > 0);
    }
    CHECK(layer.recomputable == (layer.kind != "cross_entropy"));
  }
}

TEST_CASE("cpu profiler: sizes are the arenas, by hand for a linear layer of 6 to 20 at batch 3") {
  const ModelGraph model = build_model(MlpSpec{.inputs = 6, .width = 20, .layers = 2, .outputs = 4}).value();
  const auto profiling = profile_model(model, few_samples({3}));
  REQUIRE(profiling.has_value());
  const ProfiledLayer& hidden = profiling->profile.layers[LayerId{0}];
  CHECK(hidden.parameter_count == 6 * 20 + 20);
  CHECK(hidden.parameter_bytes.value >= (6 * 20 + 20) * 4);
  CHECK(hidden.parameter_bytes.value % 64 == 0);
  CHECK(hidden.costs[0].activation.value == rounded_to_64(3 * 6 * 4));
  CHECK(hidden.costs[0].output.value == rounded_to_64(3 * 20 * 4));
  CHECK(hidden.costs[0].workspace.value == rounded_to_64(3 * 6 * 4) + rounded_to_64(3 * 20 * 4));
  CHECK(hidden.costs[0].input == Bytes{rounded_to_64(3 * 6 * 4)});
  CHECK(hidden.costs[0].deferred == Bytes{rounded_to_64(3 * 20 * 4)});
  // The relu behind it has no weights, so nothing waits for their gradient.
  CHECK(profiling->profile.layers[LayerId{1}].costs[0].deferred == Bytes{0});
}

TEST_CASE(
    "cpu profiler: the profile says where and with which kernels it was measured, and reads back equal") {
  const ModelGraph model = build_model(MlpSpec{.width = 8, .layers = 1}).value();
  const Profile profile = profile_model(model, few_samples({1})).value().profile;
  CHECK(profile.source.kind == "measured");
  CHECK(profile.source.device == cpu_device_name());
  CHECK(profile.source.setting(kernels_setting) == kernel_build());
  const std::string guard = profile.source.setting(load_guard_setting);
  CHECK((guard == "clean" || guard == "busy"));
  CHECK(profile.source.setting("colour").empty());
  const auto read = profile_from_json(to_json(profile), "profile");
  REQUIRE(read.has_value());
  CHECK(*read == profile);
}

TEST_CASE("cpu profiler: progress counts up to the rounds of all sizes") {
  const ModelGraph model = build_model(MlpSpec{.width = 8, .layers = 1}).value();
  ProfileOptions options = few_samples({1, 2});
  std::vector<std::pair<std::int64_t, std::int64_t>> calls;
  options.progress = [&](std::int64_t done, std::int64_t total) { calls.emplace_back(done, total); };
  REQUIRE(profile_model(model, options).has_value());
  REQUIRE(calls.size() == 2 * 3);
  CHECK(calls.back() == std::pair<std::int64_t, std::int64_t>{2 * 3, 2 * 3});
}

TEST_CASE("profile_model: sizes that make no sense are refused with the value") {
  const ModelGraph model = build_model(MlpSpec{.width = 8, .layers = 1}).value();
  CHECK(profile_model(model, few_samples({})).error().code == ErrorCode::bad_usage);
  CHECK(profile_model(model, few_samples({2, 2})).error().message == "micro-batch size 2 is given twice");
  CHECK(profile_model(model, few_samples({0})).error().message == "micro-batch size is 0, wanted at least 1");
}

TEST_CASE("profile_model: a network without runnable layers is refused by the layer name") {
  const ModelGraph model =
      ModelGraph::make("imported", {Layer{.name = "conv", .kind = "Conv2d"}}, {}, "test").value();
  const auto refused = profile_model(model, few_samples({1}));
  REQUIRE(!refused.has_value());
  CHECK(refused.error().message.find("'conv'") != std::string::npos);
}

}  // namespace pipeplan
