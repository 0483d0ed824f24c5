#include "profiler/gpu/gpu_profiler.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "models/layers/segment.hpp"
#include "models/zoo/zoo.hpp"
#include "profiler/cpu_profiler.hpp"
#include "profiler/gpu/reduce.hpp"
#include "tests/support/host_gpu.hpp"
#include "tests/support/reference.hpp"

namespace pipeplan {
namespace {

using test::HostGpu;
using test::HostGpuOptions;
using test::HostGpuWork;

ModelGraph small_mlp() {
  return build_model(MlpSpec{.inputs = 6, .width = 20, .layers = 2, .outputs = 4}).value();
}

ModelGraph small_transformer() {
  return build_model(TransformerSpec{.blocks = 2, .hidden = 16, .heads = 2, .sequence = 8, .vocabulary = 11})
      .value();
}

ProfileOptions few_samples(std::vector<std::int64_t> sizes) {
  ProfileOptions options;
  options.backend = Backend::cuda;
  options.micro_batch_sizes = std::move(sizes);
  options.stopping = {.warm_ups = 1, .least = 3, .most = 3};
  return options;
}

std::int64_t pass_unit(LayerPass pass) {
  switch (pass) {
    case LayerPass::forward: return 1000;
    case LayerPass::backward_input: return 1700;
    case LayerPass::backward_weight: return 2300;
    case LayerPass::optimizer: return 500;
    case LayerPass::transfer:
    case LayerPass::other: break;
  }
  return 0;
}

// A kernel of layer l takes unit * (l + 1) * batch, in the optimizer without the batch; fewer SMs take
// longer.
Nanoseconds known_time(LayerPass pass, std::int64_t layer, std::int64_t batch, std::int64_t slowness = 1) {
  return Nanoseconds{pass_unit(pass) * (layer + 1) * batch * slowness};
}
Nanoseconds known_work(const HostGpuWork& work) {
  const std::int64_t slowness = work.sm_count == 132 ? 1 : 4;
  return known_time(work.label.pass, work.label.layer, std::max<std::int64_t>(work.batch, 1), slowness);
}

HostGpuOptions known_times() {
  HostGpuOptions options;
  options.time = known_work;
  return options;
}

void check_times(const Profile& profile, Nanoseconds gap, std::int64_t slowness = 1) {
  for (const LayerId id : ids<LayerId>(profile.layers.size())) {
    const ProfiledLayer& layer = profile.layers[id];
    for (const LayerCost& cost : layer.costs) {
      INFO(layer.name, " at ", cost.micro_batch_size);
      const auto time = [&](LayerPass pass, std::int64_t batch) {
        return known_time(pass, id.value, batch, slowness) + gap;
      };
      const std::int64_t batch = cost.micro_batch_size;
      const bool learns = layer.parameter_count > 0;
      CHECK(cost.forward == time(LayerPass::forward, batch));
      CHECK(cost.backward_input == time(LayerPass::backward_input, batch));
      CHECK(cost.backward_weight == (learns ? time(LayerPass::backward_weight, batch) : Nanoseconds{}));
      CHECK(cost.optimizer == (learns ? time(LayerPass::optimizer, 1) : Nanoseconds{}));
      CHECK(cost.samples == 3);
      CHECK(cost.spread_fraction == 0.0);
    }
  }
}

// Of one micro-batch of size 1, the optimizer's among them.
struct Kernels {
  std::int64_t count = 0;
  Nanoseconds time{};
  // The gaps are shared out over one launch more, the fill of the last gradient, before which the fake has
  // none.
  [[nodiscard]] Nanoseconds shared_gap(std::int64_t gap) const {
    return Nanoseconds{count * gap / (count + 1)};
  }
};

Kernels kernels_at_size_one(const ModelGraph& model) {
  Kernels kernels;
  for (const LayerId id : ids<LayerId>(model.layers().size()))
    for (const LayerPass pass :
         {LayerPass::forward, LayerPass::backward_input, LayerPass::backward_weight, LayerPass::optimizer}) {
      const bool of_weights = pass == LayerPass::backward_weight || pass == LayerPass::optimizer;
      if (of_weights && model.layers()[id].parameter_count == 0) continue;
      ++kernels.count;
      kernels.time += known_time(pass, id.value, 1);
    }
  return kernels;
}

bool warns_of(const Profiling& profiling, WarningCode code) {
  return std::ranges::any_of(profiling.warnings, [&](const Warning& it) { return it.code == code; });
}

}  // namespace

TEST_CASE(
    "gpu profiler: each layer and pass has the time of its kernel and the gap before it, at every size") {
  for (const ModelGraph& model : {small_mlp(), small_transformer()}) {
    HostGpuOptions options = known_times();
    options.launch_gap = Nanoseconds{300};
    HostGpu gpu(options);
    const auto profiling = profile_on_gpu(model, few_samples({1, 4}), gpu);
    REQUIRE(profiling.has_value());
    const Nanoseconds gap = kernels_at_size_one(model).shared_gap(300);
    check_times(profiling->profile, gap);
    CHECK(profiling->profile.source.setting(launch_gap_setting) ==
          fmt::format("{},{}", gap.count(), gap.count()));
    CHECK(profiling->profile.model_spec == model.spec());
    CHECK(profiling->profile.source.setting(times_setting) == "kernels");
    CHECK(profiling->profile.source.setting(kernels_setting) == gpu.version());
    CHECK(profiling->profile.source.setting(allocations_setting) == "0");
    CHECK(profiling->profile.source.setting(trace_setting) == "fabricated");
    CHECK(profiling->warnings.empty());
    CHECK(gpu.misuses() == std::vector<std::string>{});
  }
}

TEST_CASE("gpu profiler: a partition is a green context of the wanted size, and layers run inside it") {
  HostGpu gpu(known_times());
  ProfileOptions options = few_samples({2});
  options.partition_sms = 32;
  const auto profiling = profile_on_gpu(small_mlp(), options, gpu);
  REQUIRE(profiling.has_value());
  check_times(profiling->profile, Nanoseconds{0}, 4);
  CHECK(profiling->profile.source.setting(partition_setting) == "32 of 132 SMs, green context");
  CHECK(profiling->recording->traces[0].partition == "32 of 132 SMs, green context");
  const Profile whole = profile_on_gpu(small_mlp(), few_samples({2}), gpu).value().profile;
  CHECK(whole.source.setting(partition_setting) == "132 of 132 SMs, whole device");
}

TEST_CASE("gpu profiler: the collectors overhead is that of its gaps, and warned of above 5 percent") {
  const ModelGraph model = small_mlp();
  const Kernels kernels = kernels_at_size_one(model);
  for (const std::int64_t collector_gap : {10, 800}) {
    HostGpuOptions options = known_times();
    options.launch_gap = Nanoseconds{200};
    options.collector_gap = Nanoseconds{collector_gap};
    HostGpu gpu(options);
    const Profiling profiling = profile_on_gpu(model, few_samples({1}), gpu).value();
    const double overhead = static_cast<double>(kernels.count * collector_gap) /
                            static_cast<double>(kernels.time.count() + kernels.count * 200);
    CHECK(profiling.profile.source.setting(cupti_overhead_setting) == fmt::format("{:.4f}", overhead));
    CHECK(warns_of(profiling, WarningCode::noisy_times) == (overhead > 0.05));
    check_times(profiling.profile, kernels.shared_gap(200));  // the plain gap, not the collector's
  }
}

TEST_CASE("gpu profiler: without a collector events take its place, launch gaps included, and it says so") {
  const Error refusal{ErrorCode::unavailable, "CUPTI is taken by another tool", "", "end the other tool"};
  for (const bool refused_at_start : {false, true}) {
    HostGpuOptions options = known_times();
    options.launch_gap = Nanoseconds{250};
    (refused_at_start ? options.start_refusal : options.collector_refusal) = refusal;
    HostGpu gpu(options);
    const auto profiling = profile_on_gpu(small_transformer(), few_samples({1, 2}), gpu);
    REQUIRE(profiling.has_value());
    check_times(profiling->profile, Nanoseconds{250});
    CHECK(profiling->profile.source.setting(times_setting) == "events");
    CHECK(profiling->profile.source.setting(cupti_overhead_setting).empty());
    CHECK_FALSE(profiling->recording.has_value());
    REQUIRE(profiling->warnings.size() == 1);
    CHECK(profiling->warnings[0].code == WarningCode::cupti_unavailable);
    CHECK(profiling->warnings[0].message.find(refusal.message) != std::string::npos);
    CHECK(profiling->warnings[0].hint == refusal.hint);
    CHECK(gpu.misuses() == std::vector<std::string>{});
  }
}

TEST_CASE("gpu profiler: sizes are those of the GPUs own layers, and the pool held the arena alone") {
  const ModelGraph model = small_mlp();
  HostGpuOptions options;
  options.extra_scratch = 3 * 16;  // floats; 16 are 64 bytes
  HostGpu gpu(options);
  const Profile profile = profile_on_gpu(model, few_samples({3}), gpu).value().profile;
  const RunnableLayers twins = runnable_layers(model).value();
  std::int64_t largest_workspace = 0, rest = 0;
  for (const LayerId id : ids<LayerId>(twins.size())) {
    const LayerBytes bytes = layer_bytes(*twins[id.index()], 3);
    const LayerCost& cost = profile.layers[id].costs[0];
    CHECK(cost.workspace.value == bytes.workspace.value + 3 * 64);
    CHECK(cost.activation == bytes.activation);
    CHECK(cost.output == bytes.output);
    CHECK(cost.input == bytes.input);
    CHECK(cost.deferred == bytes.deferred);
    CHECK(profile.layers[id].parameter_bytes == bytes.parameter);
    CHECK(profile.layers[id].recomputable == (id.next() != profile.layers.end_id()));
    largest_workspace = std::max(largest_workspace, cost.workspace.value);
    rest += 2 * bytes.parameter.value + 2 * bytes.activation.value;  // gradients too; two stashes
  }
  CHECK(profile.source.setting(arena_setting) == fmt::to_string(rest + largest_workspace));
  CHECK(profile.source.setting(pool_high_water_setting) == profile.source.setting(arena_setting));
}

TEST_CASE("gpu profiler: the recording, written and read, reduces to the very profile") {
  HostGpu gpu(known_times());
  const Profiling profiling = profile_on_gpu(small_transformer(), few_samples({1, 3}), gpu).value();
  REQUIRE(profiling.recording.has_value());
  const auto read = gpu_recording_from_json(to_json(*profiling.recording), "trace.json");
  REQUIRE(read.has_value());
  CHECK(*read == *profiling.recording);
  const auto reduced = reduce(*read, "trace.json");
  REQUIRE(reduced.has_value());
  CHECK(reduced->profile == profiling.profile);
}

TEST_CASE("gpu profiler: the kept fabricated trace reduces to the times it was fabricated with") {
  // Each pass of layer l took 1 us * (l + 1), each optimizer step 500 ns * (l + 1), at both sizes.
  const std::string path = test::source_folder() / "tests/profiler/gpu/fabricated_trace.json";
  const GpuRecording kept = gpu_recording_from_json(read_json_file(path).value(), path).value();
  const Profile profile = reduce(kept, path).value().profile;
  REQUIRE(profile.layers.size() == 4);
  CHECK(profile.source.setting(trace_setting) == "fabricated");
  for (const LayerId id : ids<LayerId>(profile.layers.size())) {
    const ProfiledLayer& layer = profile.layers[id];
    REQUIRE(layer.costs.size() == 2);
    for (const LayerCost& cost : layer.costs) {
      INFO(layer.name);
      CHECK(cost.forward == Nanoseconds{1000 * (id.value + 1)});
      CHECK(cost.backward_input == Nanoseconds{1000 * (id.value + 1)});
      CHECK(cost.optimizer == Nanoseconds{layer.parameter_count > 0 ? 500 * (id.value + 1) : 0});
    }
  }
}

TEST_CASE("gpu profiler: a trace that lost records is refused, one with kernels of nobody is warned of") {
  HostGpu losing({.dropped_records = 7});
  const auto refused = profile_on_gpu(small_mlp(), few_samples({1}), losing);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message.find("7 records") != std::string::npos);

  HostGpu straying({.stray_kernels = 2});
  const auto warned = profile_on_gpu(small_mlp(), few_samples({1}), straying);
  REQUIRE(warned.has_value());
  CHECK(warns_of(*warned, WarningCode::unattributed_work));
}

TEST_CASE("gpu profiler: what fails on the GPU is an error that names call, layer and pass") {
  // In the first warm-up launch 3 is layer 2's forward; its 6 layers come back after the loss's gradient.
  struct Case {
    std::int64_t launch;
    const char* doing;
  };
  for (const Case& failing :
       {Case{3, "in layer 2, forward"}, Case{6 + 1 + 1, "in layer 5, backward_input"},
        Case{6 + 1 + 2, "in layer 4, backward_input"}, Case{6 + 1 + 3, "in layer 4, backward_weight"}}) {
    HostGpu gpu({.failing_launch = failing.launch});
    const auto refused = profile_on_gpu(small_mlp(), few_samples({1}), gpu);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code == ErrorCode::unavailable);
    CHECK(refused.error().message.find("cudaLaunchKernel failed") == 0);
    CHECK(refused.error().message.find(failing.doing) != std::string::npos);
    CHECK(refused.error().where == "profiler on device 0");
  }
  for (const std::int64_t call : {1, 2, 9}) {
    HostGpu gpu({.failing_synchronize = call});
    const auto refused = profile_on_gpu(small_mlp(), few_samples({1}), gpu);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().message.find("cudaStreamSynchronize failed") == 0);
  }
}

TEST_CASE("gpu profiler: a GPU that is not there or too small is refused with what is") {
  HostGpu gpu({.device_count = 2});
  ProfileOptions options = few_samples({1});
  options.gpu = 2;
  const Error missing = profile_on_gpu(small_mlp(), options, gpu).error();
  CHECK(missing.code == ErrorCode::unavailable);
  CHECK(missing.message == "GPU 2 is asked for, there are 2");

  HostGpu none({.device_count = 0});
  CHECK(profile_on_gpu(small_mlp(), few_samples({1}), none).error().message.find("no CUDA device") == 0);

  HostGpu small({.memory = Bytes{1 << 10}});
  const Error full = profile_on_gpu(small_mlp(), few_samples({1}), small).error();
  CHECK(full.where == "profile at micro-batch size 1");
  CHECK(full.message.find("has 1.0 KiB left") != std::string::npos);
}

TEST_CASE("gpu profiler: progress counts up to all rounds, plain and collected, of all sizes") {
  HostGpu gpu;
  ProfileOptions options = few_samples({1, 2});
  std::vector<std::pair<std::int64_t, std::int64_t>> calls;
  options.progress = [&](std::int64_t done, std::int64_t total) { calls.emplace_back(done, total); };
  REQUIRE(profile_on_gpu(small_mlp(), options, gpu).has_value());
  REQUIRE(calls.size() == 2 * 2 * 3);
  CHECK(std::ranges::is_sorted(calls));
  CHECK(calls.back() == std::pair<std::int64_t, std::int64_t>{2 * 2 * 3, 2 * 2 * 3});
}

TEST_CASE("profile_model: backends that are given their times measure nothing") {
  for (const Backend backend : {Backend::sleep, Backend::virtual_clock}) {
    ProfileOptions options = few_samples({1});
    options.backend = backend;
    const Error refused = profile_model(small_mlp(), options).error();
    CHECK(refused.code == ErrorCode::bad_usage);
    CHECK(refused.message.find(fmt::format("'{}'", spelt(backend))) != std::string::npos);
  }
}

}  // namespace pipeplan
