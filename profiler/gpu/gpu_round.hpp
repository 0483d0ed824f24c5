#pragma once

// A network on a queue, run one training micro-batch at a time: forward, backward and optimizer step of each
// layer in turn. What the GPU profiler times in its ways, and the link probe while others disturb it.

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "models/layers/gpu_queue.hpp"
#include "models/layers/segment.hpp"
#include "profiler/layer_samples.hpp"

namespace pipeplan {

class GpuRounds {
 public:
  // Takes memory from the queue. Model, layers (made by the queue) and queue must outlive it.
  static Result<std::unique_ptr<GpuRounds>> make(const ModelGraph& model, const RunnableLayers& layers,
                                                 std::int64_t batch, GpuQueue& queue);

  // Brings the next micro-batch's data; the queue is idle then.
  Result<void> prepare();
  // Runs it, from idle to idle: the time between events before and after all work.
  Result<Nanoseconds> run();
  // The same with events around each layer and pass. The queue idles at first, so that the host is ahead of
  // it and what the host takes for a launch is in no layer's time.
  Result<Nanoseconds> run_timed();
  // Per layer, of the last run_timed. Passes that have nothing to do (no parameters) take no time.
  [[nodiscard]] Result<std::vector<PassTimes>> pass_times() const;

  // How long the queue idles before run_timed's first layer.
  [[nodiscard]] Nanoseconds head_start() const;

  [[nodiscard]] Bytes arena_bytes() const { return need_; }

 private:
  struct Interval {
    std::unique_ptr<GpuEvent> from, to;
  };
  using LayerAndPass = std::pair<std::size_t, LayerPass>;

  GpuRounds(const ModelGraph& model, const SegmentSpec& spec, GpuQueue& queue, Bytes need, Arena arena,
            Interval whole);
  static Result<Interval> make_interval(GpuQueue& queue);
  Result<void> make_intervals();
  [[nodiscard]] bool has_work(std::size_t layer, LayerPass pass) const;

  void forward(bool timed);
  void backward(bool timed);
  void step(bool timed);
  void run_pass(std::size_t layer, LayerPass pass, bool timed);
  void launch(std::size_t layer, LayerPass pass);
  Result<Nanoseconds> run_between_events(bool timed);
  [[nodiscard]] Result<Nanoseconds> time_of(std::size_t layer, LayerPass pass) const;

  const ModelGraph& model_;
  SegmentSpec spec_;
  GpuQueue& queue_;
  Bytes need_;
  Arena arena_;
  Segment segment_;
  Interval whole_;
  std::map<LayerAndPass, Interval> intervals_;  // made by the first run_timed
  std::int64_t turn_ = 0;
  std::int64_t rounds_ = 0;
};

}  // namespace pipeplan
