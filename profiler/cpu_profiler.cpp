#include "profiler/cpu_profiler.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "models/layers/core_pin.hpp"
#include "models/layers/kernel_build.hpp"
#include "models/layers/segment.hpp"
#include "models/layers/synthetic_batch.hpp"
#include "profiler/layer_samples.hpp"
#include "profiler/measured_outline.hpp"

namespace pipeplan {
namespace {

using Clock = std::chrono::steady_clock;

// One micro-batch size on its way through the network, again and again.
class Measurement {
 public:
  Measurement(const ModelGraph& model, const SegmentSpec& spec, Processor& processor, Arena& arena)
      : model_(model), segment_(spec, processor, arena), samples_(spec.layers.size()) {
    segment_.initialize(0);
  }

  // Several stashes in turn, since a pipeline has several micro-batches in flight and never finds the last
  // one's warm.
  static constexpr std::int64_t stash_count = 2;

  void round(bool keep) {
    fill(turn_);
    const auto wall_start = Clock::now();
    const Nanoseconds cpu_start = thread_cpu_time();
    measure_layers(turn_, keep);
    last_round_ = Clock::now() - wall_start;
    if (keep) load_.wall += last_round_, load_.cpu += thread_cpu_time() - cpu_start;
    segment_.finish(turn_);
    turn_ = (turn_ + 1) % stash_count;
  }

  [[nodiscard]] Nanoseconds last_round() const { return last_round_; }
  [[nodiscard]] const LoadVerdict& load() const { return load_; }
  [[nodiscard]] const LayerSamples& samples(std::size_t layer) const { return samples_[layer]; }

 private:
  void fill(std::int64_t micro_batch) {
    segment_.begin(micro_batch);
    const BatchKey key{.seed = 0, .iteration = rounds_++, .micro_batch = micro_batch};
    const LayerSpec& first = *model_.layers().front().runnable;
    const LayerSpec& last = *model_.layers().back().runnable;
    fill_inputs(first, key, segment_.input(micro_batch));
    if (is_loss(last)) fill_targets(first, last, key, segment_.targets(micro_batch));
  }

  template<class Work>
  static Nanoseconds timed(Work&& work) {
    const auto start = Clock::now();
    work();
    return Clock::now() - start;
  }

  void measure_layers(std::int64_t micro_batch, bool keep) {
    const std::size_t count = segment_.layer_count();
    std::vector<PassTimes> times(count);
    for (std::size_t i = 0; i < count; ++i)
      times[i].forward = timed([&] { segment_.forward_layer(i, micro_batch); });
    std::ranges::fill(segment_.output_gradient(), 1.0F);
    for (std::size_t i = count; i-- > 0;) {
      times[i].backward_input = timed([&] { segment_.backward_input_layer(i, micro_batch); });
      times[i].backward_weight = timed([&] { segment_.backward_weight_layer(i, micro_batch); });
    }
    for (std::size_t i = 0; i < count; ++i)
      times[i].optimizer = timed([&] { segment_.step_layer(i, optimizer, 1); });
    if (!keep) return;
    for (std::size_t i = 0; i < count; ++i) samples_[i].add(times[i]);
  }

  static constexpr Optimizer optimizer{.rule = OptimizerRule::sgd, .learning_rate = 1e-3F};

  const ModelGraph& model_;
  Segment segment_;
  std::vector<LayerSamples> samples_;
  LoadVerdict load_;
  Nanoseconds last_round_{};
  std::int64_t turn_ = 0;
  std::int64_t rounds_ = 0;
};

class CpuProfiler {
 public:
  CpuProfiler(const ModelGraph& model, const ProfileOptions& options) : model_(model), options_(options) {}

  Result<Profiling> run() {
    PIPEPLAN_TRY(layers, runnable_layers(model_, *processor_));
    const AffinityScope affinity;
    if (const auto cores = usable_cores(); !cores.empty()) pin_to_core(cores.back());
    Profiling profiling{.profile = measured_outline(model_, layers, source()), .load = {}};
    for (const std::int64_t batch : options_.micro_batch_sizes)
      PIPEPLAN_CHECK(measure(layers, batch, profiling));
    profiling.profile.source.settings.emplace_back(load_guard_setting,
                                                   profiling.load.clean() ? "clean" : "busy");
    return profiling;
  }

 private:
  static ProfileSource source() {
    return {.device = cpu_device_name(),
            .tool = "pipeplan cpu profiler",
            .settings = {{kernels_setting, kernel_build()}}};
  }

  Result<void> measure(const RunnableLayers& layers, std::int64_t batch, Profiling& profiling) {
    const SegmentSpec spec{.layers = layers, .batch = batch, .micro_batch_count = Measurement::stash_count};
    const Bytes need = segment_memory(spec, Measurement::stash_count).total();
    PIPEPLAN_TRY(arena, processor_->reserve(need, fmt::format("profile at micro-batch size {}", batch)));
    Measurement measurement(model_, spec, *processor_, arena);
    repeat(measurement);
    for (const LayerId id : ids<LayerId>(layers.size())) {
      LayerCost cost = layer_sizes(*layers[id.index()], batch);
      measurement.samples(id.index()).summarize(cost);
      profiling.profile.layers[id].costs.push_back(cost);
    }
    profiling.load.wall += measurement.load().wall;
    profiling.load.cpu += measurement.load().cpu;
    ++sizes_done_;
    return {};
  }

  void repeat(Measurement& measurement) {
    for (std::int64_t i = 0; i < options_.stopping.warm_ups; ++i) measurement.round(false);
    std::vector<Nanoseconds> rounds;
    Nanoseconds spent{};
    while (!options_.stopping.enough(rounds, spent)) {
      measurement.round(true);
      rounds.push_back(measurement.last_round());
      spent += rounds.back();
      report_progress(static_cast<std::int64_t>(rounds.size()));
    }
  }

  void report_progress(std::int64_t round) const {
    if (!options_.progress) return;
    const std::int64_t per_size = options_.stopping.most;
    options_.progress(sizes_done_ * per_size + round,
                      static_cast<std::int64_t>(options_.micro_batch_sizes.size()) * per_size);
  }

  const ModelGraph& model_;
  const ProfileOptions& options_;
  std::unique_ptr<Processor> processor_ = make_host_processor();
  std::int64_t sizes_done_ = 0;
};

}  // namespace

Result<Profiling> profile_on_cpu(const ModelGraph& model, const ProfileOptions& options) {
  return CpuProfiler(model, options).run();
}

std::string cpu_device_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown CPU";
}

}  // namespace pipeplan
