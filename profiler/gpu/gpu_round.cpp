#include "profiler/gpu/gpu_round.hpp"

#include <fmt/format.h>

#include <array>

#include "models/layers/synthetic_batch.hpp"

namespace pipeplan {
namespace {

// Several stashes in turn, since a pipeline has several micro-batches in flight and never finds the last
// one's in the cache.
constexpr std::int64_t stash_count = 2;

constexpr Optimizer optimizer{.rule = OptimizerRule::sgd, .learning_rate = 1e-3F};

// What a host takes at most to enqueue one layer and pass: a transformer block's some twenty launches of a
// few us each.
constexpr Nanoseconds enqueue_time = std::chrono::microseconds(100);

constexpr std::array timed_passes{LayerPass::forward, LayerPass::backward_input, LayerPass::backward_weight,
                                  LayerPass::optimizer};

}  // namespace

Result<std::unique_ptr<GpuRounds>> GpuRounds::make(const ModelGraph& model, const RunnableLayers& layers,
                                                   std::int64_t batch, GpuQueue& queue) {
  const SegmentSpec spec{
      .layers = layers, .batch = batch, .micro_batch_count = stash_count, .optimizer = optimizer.rule};
  const Bytes need = segment_memory(spec, stash_count).total();
  PIPEPLAN_TRY(arena, queue.reserve(need, fmt::format("profile at micro-batch size {}", batch)));
  PIPEPLAN_TRY(whole, make_interval(queue));
  return std::unique_ptr<GpuRounds>(
      new GpuRounds(model, spec, queue, need, std::move(arena), std::move(whole)));
}

GpuRounds::GpuRounds(const ModelGraph& model, const SegmentSpec& spec, GpuQueue& queue, Bytes need,
                     Arena arena, Interval whole)
    : model_(model),
      spec_(spec),
      queue_(queue),
      need_(need),
      arena_(std::move(arena)),
      segment_(spec_, queue_, arena_),
      whole_(std::move(whole)) {
  segment_.initialize(0);
}

Result<GpuRounds::Interval> GpuRounds::make_interval(GpuQueue& queue) {
  PIPEPLAN_TRY(from, queue.make_event(EventUse::timing));
  PIPEPLAN_TRY(to, queue.make_event(EventUse::timing));
  return Interval{std::move(from), std::move(to)};
}

bool GpuRounds::has_work(std::size_t layer, LayerPass pass) const {
  const bool for_parameters = pass == LayerPass::backward_weight || pass == LayerPass::optimizer;
  return !for_parameters || spec_.layers[layer]->parameter_buffer_count() > 0;
}

Result<void> GpuRounds::make_intervals() {
  for (std::size_t layer = 0; layer < segment_.layer_count(); ++layer)
    for (const LayerPass pass : timed_passes) {
      if (!has_work(layer, pass)) continue;
      PIPEPLAN_TRY(interval, make_interval(queue_));
      intervals_.emplace(LayerAndPass{layer, pass}, std::move(interval));
    }
  return {};
}

Result<void> GpuRounds::prepare() {
  segment_.begin(turn_);
  const BatchKey key{.seed = 0, .iteration = rounds_++, .micro_batch = turn_};
  const LayerSpec& first = *model_.layers().front().runnable;
  const LayerSpec& last = *model_.layers().back().runnable;
  std::vector<float> inputs(segment_.input(turn_).size());
  fill_inputs(first, key, inputs);
  queue_.upload(inputs, segment_.input(turn_).data());
  if (is_loss(last)) {
    std::vector<float> targets(segment_.targets(turn_).size());
    fill_targets(first, last, key, targets);
    queue_.upload(targets, segment_.targets(turn_).data());
  }
  return queue_.synchronize();
}

Result<Nanoseconds> GpuRounds::run() { return run_between_events(false); }

Result<Nanoseconds> GpuRounds::run_timed() {
  if (intervals_.empty()) PIPEPLAN_CHECK(make_intervals());
  queue_.idle(head_start());
  return run_between_events(true);
}

Nanoseconds GpuRounds::head_start() const {
  return enqueue_time * static_cast<std::int64_t>(segment_.layer_count() * timed_passes.size());
}

Result<Nanoseconds> GpuRounds::run_between_events(bool timed) {
  queue_.record(*whole_.from);
  forward(timed);
  backward(timed);
  step(timed);
  queue_.record(*whole_.to);
  PIPEPLAN_CHECK(queue_.synchronize());
  segment_.finish(turn_);
  turn_ = (turn_ + 1) % stash_count;
  return queue_.elapsed(*whole_.from, *whole_.to);
}

void GpuRounds::forward(bool timed) {
  for (std::size_t i = 0; i < segment_.layer_count(); ++i) run_pass(i, LayerPass::forward, timed);
}

void GpuRounds::backward(bool timed) {
  const std::size_t count = segment_.layer_count();
  {
    const std::span<float> gradient = segment_.output_gradient();
    const LaunchScope scope(queue_, {.layer = static_cast<std::int64_t>(count) - 1});
    queue_.fill(gradient.data(), static_cast<std::int64_t>(gradient.size()), 1.0F);
  }
  for (std::size_t i = count; i-- > 0;) {
    run_pass(i, LayerPass::backward_input, timed);
    run_pass(i, LayerPass::backward_weight, timed);
  }
}

void GpuRounds::step(bool timed) {
  for (std::size_t i = 0; i < segment_.layer_count(); ++i) run_pass(i, LayerPass::optimizer, timed);
}

void GpuRounds::run_pass(std::size_t layer, LayerPass pass, bool timed) {
  if (!has_work(layer, pass)) return;
  if (!timed) return launch(layer, pass);
  const Interval& interval = intervals_.at({layer, pass});
  queue_.record(*interval.from);
  launch(layer, pass);
  queue_.record(*interval.to);
}

void GpuRounds::launch(std::size_t layer, LayerPass pass) {
  switch (pass) {
    case LayerPass::forward: return segment_.forward_layer(layer, turn_);
    case LayerPass::backward_input: return segment_.backward_input_layer(layer, turn_);
    case LayerPass::backward_weight: return segment_.backward_weight_layer(layer, turn_);
    case LayerPass::optimizer: return segment_.step_layer(layer, optimizer, 1);
    case LayerPass::transfer:
    case LayerPass::other: return;
  }
}

Result<Nanoseconds> GpuRounds::time_of(std::size_t layer, LayerPass pass) const {
  const auto interval = intervals_.find({layer, pass});
  if (interval == intervals_.end()) return Nanoseconds{};
  return queue_.elapsed(*interval->second.from, *interval->second.to);
}

Result<std::vector<PassTimes>> GpuRounds::pass_times() const {
  std::vector<PassTimes> times;
  for (std::size_t i = 0; i < segment_.layer_count(); ++i) {
    PIPEPLAN_TRY(forward, time_of(i, LayerPass::forward));
    PIPEPLAN_TRY(backward_input, time_of(i, LayerPass::backward_input));
    PIPEPLAN_TRY(backward_weight, time_of(i, LayerPass::backward_weight));
    PIPEPLAN_TRY(optimizer_step, time_of(i, LayerPass::optimizer));
    times.push_back({forward, backward_input, backward_weight, optimizer_step});
  }
  return times;
}

}  // namespace pipeplan
