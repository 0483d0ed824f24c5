#include "profiler/gpu/gpu_profiler.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "profiler/cpu_profiler.hpp"
#include "profiler/gpu/gpu_round.hpp"
#include "profiler/gpu/reduce.hpp"
#include "profiler/measured_outline.hpp"
#include "profiler/statistics.hpp"

namespace pipeplan {
namespace {

// Tags count iterations modulo 256.
constexpr std::int64_t largest_traced_iteration_count = 256;

std::int64_t allocations_in_iterations(const GpuTrace& trace) {
  return std::ranges::count_if(trace.memory, [&](const GpuMemoryEvent& event) {
    return event.allocation && std::ranges::any_of(trace.iterations, [&](const GpuIteration& iteration) {
             return iteration.start <= event.at && event.at < iteration.end;
           });
  });
}

Result<GpuDevice> find_device(GpuBackend& backend, std::int64_t index) {
  PIPEPLAN_TRY(devices, backend.devices());
  const auto device = std::ranges::find(devices, index, &GpuDevice::index);
  if (device != devices.end()) return *device;
  return fail(ErrorCode::unavailable, {},
              fmt::format("GPU {} is asked for, there are {}", index, devices.size()),
              "see 'pipeplan show devices'");
}

Result<std::unique_ptr<GpuQueue>> open_queue(GpuBackend& backend, const ProfileOptions& options) {
  const PartRequest request{.name = "profiler", .device = options.gpu, .sm_count = options.partition_sms};
  const PartitionKind kind = options.partition_sms ? PartitionKind::green : PartitionKind::device;
  PIPEPLAN_TRY(queues, backend.open(kind, {&request, 1}));
  return std::move(queues.front());
}

class GpuProfiler {
 public:
  GpuProfiler(const ModelGraph& model, const ProfileOptions& options, GpuBackend& backend)
      : model_(model), options_(options), backend_(backend) {}

  Result<Profiling> run() {
    open_collector();  // first: some of what it asks for is only granted before the GPU is touched
    PIPEPLAN_TRY(device, find_device(backend_, options_.gpu));
    PIPEPLAN_TRY(queue, open_queue(backend_, options_));
    queue_ = std::move(queue);
    PIPEPLAN_TRY(layers, runnable_layers(model_, *queue_));
    recording_.outline = measured_outline(model_, layers, source(device));
    for (const std::int64_t batch : options_.micro_batch_sizes) PIPEPLAN_CHECK(measure(layers, batch));
    PIPEPLAN_TRY(high_water, queue_->pool_high_water());
    note_settings(high_water);
    return finish();
  }

 private:
  void open_collector() {
    auto made = backend_.make_collector();
    if (made)
      collector_ = std::move(*made);
    else
      do_without_collector(made.error());
  }

  void do_without_collector(const Error& reason) {
    collector_.reset();
    warnings_.push_back(
        {WarningCode::cupti_unavailable,
         fmt::format("times come from events around each layer, launch gaps included: {}", reason.message),
         reason.hint});
  }

  [[nodiscard]] ProfileSource source(const GpuDevice& device) const {
    return {
        .device = device.name,
        .tool = "pipeplan gpu profiler",
        .settings = {{kernels_setting, backend_.version()}, {partition_setting, part_text(queue_->part())}}};
  }

  Result<void> measure(const RunnableLayers& layers, std::int64_t batch) {
    PIPEPLAN_TRY(rounds, GpuRounds::make(model_, layers, batch, *queue_));
    arena_bytes_ = std::max(arena_bytes_, rounds->arena_bytes());
    for (const LayerId id : ids<LayerId>(layers.size()))
      recording_.outline.layers[id].costs.push_back(layer_sizes(*layers[id.index()], batch));
    if (collector_) PIPEPLAN_CHECK(measure_kernels(*rounds, batch));
    if (!collector_) PIPEPLAN_CHECK(measure_events(*rounds));
    return {};
  }

  // Plainly, then with the collector on. It may refuse only when it starts: then the first size goes on
  // without it, and so do the others.
  Result<void> measure_kernels(GpuRounds& rounds, std::int64_t batch) {
    PIPEPLAN_TRY(plain, plain_times(rounds));
    if (const auto started = collector_->start(); !started) {
      if (!recording_.traces.empty()) return Failure(started.error());
      do_without_collector(started.error());
      return {};
    }
    queue_->set_observer(collector_.get());
    const auto traced = traced_times(rounds);
    queue_->set_observer(nullptr);
    if (!traced) return Failure(traced.error());
    PIPEPLAN_TRY(trace, collector_->stop());
    trace.plain_iteration = median(plain);
    keep_trace(std::move(trace), batch);
    note_overhead(median(plain), median(*traced), batch);
    return {};
  }

  static Result<Nanoseconds> plain_round(GpuRounds& rounds) {
    PIPEPLAN_CHECK(rounds.prepare());
    return rounds.run();
  }

  Result<std::vector<Nanoseconds>> plain_times(GpuRounds& rounds) {
    PIPEPLAN_CHECK(warm_up([&] { return plain_round(rounds); }));
    return repeat([&] { return plain_round(rounds); });
  }

  Result<std::vector<Nanoseconds>> traced_times(GpuRounds& rounds) {
    PIPEPLAN_CHECK(warm_up([&] { return plain_round(rounds); }));
    PIPEPLAN_CHECK(collector_->discard());
    return repeat([&, number = std::int64_t{0}]() mutable -> Result<Nanoseconds> {
      PIPEPLAN_CHECK(rounds.prepare());
      collector_->begin_iteration(number++);
      const auto time = rounds.run();
      collector_->end_iteration();
      return time;
    });
  }

  Result<void> measure_events(GpuRounds& rounds) {
    const auto round = [&]() -> Result<Nanoseconds> {
      PIPEPLAN_CHECK(rounds.prepare());
      return rounds.run_timed();
    };
    PIPEPLAN_CHECK(warm_up(round));
    std::vector<LayerSamples> samples(recording_.outline.layers.size());
    PIPEPLAN_CHECK(repeat([&]() -> Result<Nanoseconds> {
      PIPEPLAN_TRY(time, round());
      PIPEPLAN_TRY(passes, rounds.pass_times());
      for (std::size_t i = 0; i < passes.size(); ++i) samples[i].add(passes[i]);
      return time;
    }));
    for (const LayerId id : ids<LayerId>(samples.size()))
      samples[id.index()].summarize(recording_.outline.layers[id].costs.back());
    return {};
  }

  template<class Round>
  Result<void> warm_up(Round&& round) {
    for (std::int64_t i = 0; i < options_.stopping.warm_ups; ++i) PIPEPLAN_CHECK(round());
    return {};
  }

  template<class Round>
  Result<std::vector<Nanoseconds>> repeat(Round&& round) {
    StoppingRule rule = options_.stopping;
    rule.most = std::min(rule.most, largest_traced_iteration_count);
    rule.least = std::min(rule.least, rule.most);
    std::vector<Nanoseconds> times;
    Nanoseconds spent{};
    while (!rule.enough(times, spent)) {
      PIPEPLAN_TRY(time, round());
      times.push_back(time);
      spent += time;
      report_progress(rule.most, static_cast<std::int64_t>(times.size()));
    }
    ++series_done_;
    return times;
  }

  void report_progress(std::int64_t per_series, std::int64_t rounds) const {
    if (!options_.progress) return;
    const std::int64_t series_per_size = collector_ ? 2 : 1;
    const auto series = series_per_size * static_cast<std::int64_t>(options_.micro_batch_sizes.size());
    options_.progress(std::min(series_done_, series - 1) * per_series + rounds, series * per_series);
  }

  void keep_trace(GpuTrace trace, std::int64_t batch) {
    trace.device = queue_->part().device_name;
    trace.partition = part_text(queue_->part());
    trace.micro_batch_size = batch;
    allocations_ += allocations_in_iterations(trace);
    recording_.traces.push_back(std::move(trace));
  }

  void note_overhead(Nanoseconds plain, Nanoseconds traced, std::int64_t batch) {
    if (plain <= Nanoseconds::zero()) return;
    const double fraction = static_cast<double>(traced.count()) / static_cast<double>(plain.count()) - 1;
    if (recording_.traces.size() == 1 || fraction > overhead_fraction_) overhead_fraction_ = fraction;
    if (fraction <= largest_cupti_overhead_fraction) return;
    warnings_.push_back(
        {WarningCode::noisy_times,
         fmt::format(
             "collecting kernel times made micro-batches of size {} {:.1f} % longer ({}, plainly {}); "
             "above {:.0f} % they are in doubt",
             batch, 100 * fraction, display(traced), display(plain), 100 * largest_cupti_overhead_fraction),
         "profile larger micro-batches or wider layers"});
  }

  void note_settings(Bytes pool_high_water) {
    auto& settings = recording_.outline.source.settings;
    settings.emplace_back(times_setting, collector_ ? "kernels" : "events");
    if (collector_) {
      settings.emplace_back(cupti_overhead_setting, fmt::format("{:.4f}", overhead_fraction_));
      settings.emplace_back(allocations_setting, fmt::to_string(allocations_));
    }
    settings.emplace_back(arena_setting, fmt::to_string(arena_bytes_.value));
    settings.emplace_back(pool_high_water_setting, fmt::to_string(pool_high_water.value));
  }

  Result<Profiling> finish() {
    Profiling profiling;
    profiling.warnings = std::move(warnings_);
    if (!collector_) {
      profiling.profile = std::move(recording_.outline);
      return profiling;
    }
    PIPEPLAN_TRY(reduced, reduce(recording_, "recording"));
    profiling.profile = std::move(reduced.profile);
    std::ranges::move(reduced.warnings, std::back_inserter(profiling.warnings));
    profiling.recording = std::move(recording_);
    return profiling;
  }

  const ModelGraph& model_;
  const ProfileOptions& options_;
  GpuBackend& backend_;
  std::unique_ptr<GpuQueue> queue_;
  std::unique_ptr<GpuCollector> collector_;
  GpuRecording recording_;
  std::vector<Warning> warnings_;
  Bytes arena_bytes_;
  double overhead_fraction_ = 0;
  std::int64_t allocations_ = 0;
  std::int64_t series_done_ = 0;
};

}  // namespace

Result<Profiling> profile_on_gpu(const ModelGraph& model, const ProfileOptions& options,
                                 GpuBackend& backend) {
  return GpuProfiler(model, options, backend).run();
}

std::string part_text(const GpuPart& part) {
  const auto kind = [&] {
    switch (part.kind) {
      case PartitionKind::device: return "whole device";
      case PartitionKind::green: return "green context";
      case PartitionKind::streams: return "stream";
    }
    return "";
  };
  return fmt::format("{} of {} SMs, {}", part.sm_count, part.device_sm_count, kind());
}

}  // namespace pipeplan
