#include "executor/gpu/gpu_worker.hpp"

#include <algorithm>

#include "models/base/assert.hpp"

namespace pipeplan {
namespace {

std::vector<float> downloaded(GpuQueue& queue, std::span<const float> values) {
  std::vector<float> copy(values.size());
  if (!copy.empty()) queue.download(values.data(), copy);
  return copy;
}

void upload(GpuQueue& queue, const std::vector<float>& values, std::span<float> to) {
  PIPEPLAN_ASSERT(values.size() == to.size());
  if (!values.empty()) queue.upload(values, to.data());
}

std::int64_t scalar_count(std::span<const float> values) { return static_cast<std::int64_t>(values.size()); }

}  // namespace

Result<std::unique_ptr<GpuWorker>> GpuWorker::make(WorkerSpec spec, RunnableLayers layers, GpuRig& rig) {
  GpuQueue& queue = *rig.queues[spec.id];
  std::unique_ptr<GpuWorker> device(new GpuWorker(std::move(spec), std::move(layers), rig));
  PIPEPLAN_TRY(arena, queue.reserve(memory_needed(device->spec_), device->spec_.name));
  device->arena_.emplace(std::move(arena));
  place_stages(device->spec_, queue, *device->arena_, rig.stages);
  PIPEPLAN_TRY(batches, BatchStore::make(device->spec_.batch, queue, device->spec_.name));
  device->batches_.emplace(std::move(batches));
  PIPEPLAN_CHECK(queue.synchronize());
  return device;
}

GpuWorker::GpuWorker(WorkerSpec spec, RunnableLayers layers, GpuRig& rig)
    : spec_(std::move(spec)), rig_(rig), queue_(*rig.queues[spec_.id]), layers_(std::move(layers)) {}

Result<void> GpuWorker::join_peers(const PipelineCosts* links) {
  for (const StageSpec& stage : spec_.stages) {
    if (stage.peers.size() < 2) continue;
    const Nanoseconds time = links != nullptr ? links->times[stage.stage].all_reduce : Nanoseconds::zero();
    PIPEPLAN_TRY(exchange,
                 GradientExchange::make(rig_, stage.stage, spec_.id, stage.peers, time, spec_.name));
    exchanges_.emplace(stage.stage, std::move(exchange));
  }
  return {};
}

PlacedStage& GpuWorker::placed(StageId stage) const { return rig_.stages.at({spec_.id, stage}); }

Result<void> GpuWorker::begin_iteration(std::int64_t number) {
  iteration_ = number;
  enqueued_.clear();
  stamps_.clear();
  gradients_.clear();
  trail_.restart(*arena_);
  batches_->load(number);
  PIPEPLAN_CHECK(queue_.synchronize());
  rig_.clock.rewind();
  rig_.links.restart();
  return {};
}

void GpuWorker::enqueue(const Command& command) {
  rig_.clock.start_once();
  for (const CommandId id : command.waits) queue_.wait(rig_.events.done(id));
  const bool on_link = rig_.links.recorder(command.id) != nullptr;
  if (!on_link) rig_.events.begin(command.id, queue_);
  switch (command.kind) {
    case CommandKind::compute: compute(command); break;
    case CommandKind::send: send(command); break;
    case CommandKind::reduce_scatter: exchanges_.at(command.op.stage).reduce_scatter(command); break;
    case CommandKind::all_gather: exchanges_.at(command.op.stage).all_gather(command); break;
    case CommandKind::step: step(command.op.stage); break;
  }
  if (!on_link) rig_.events.end(command.id, queue_);
  enqueued_.push_back(command.id);
}

void GpuWorker::compute(const Command& command) {
  switch (command.op.kind) {
    case OpKind::forward: forward(command); break;
    case OpKind::backward: backward(command); break;
    case OpKind::backward_input: backward_input(command); break;
    case OpKind::backward_weight: backward_weight(command); break;
    case OpKind::recompute: placed(command.op.stage).segment->recompute(command.op.micro_batch.value); break;
  }
}

void GpuWorker::forward(const Command& command) {
  const StageId stage = command.op.stage;
  const std::int64_t k = command.op.micro_batch.value;
  PlacedStage& here = placed(stage);
  Segment& segment = *here.segment;
  segment.begin(k);
  trail_.note_taken(command.id, *arena_, +1);
  const std::span<float> input = segment.input(k);
  const float* from = stage.value == 0 ? batches_->inputs(k) : here.activations.slot(command.sequence).data();
  queue_.copy(from, input.data(), scalar_count(input));
  if (spec_.is_last(stage)) {
    const std::span<float> targets = segment.targets(k);
    queue_.copy(batches_->targets(k), targets.data(), scalar_count(targets));
  }
  segment.forward(k);
  if (spec_.is_last(stage)) queue_.copy(segment.output().data(), batches_->loss(k), 1);
}

void GpuWorker::put_output_gradient(const Command& command, std::span<float> place) {
  if (spec_.is_last(command.op.stage)) {
    queue_.fill(place.data(), scalar_count(place), spec_.loss_factor);
    return;
  }
  const float* from = placed(command.op.stage).gradients.slot(command.sequence).data();
  queue_.copy(from, place.data(), scalar_count(place));
}

void GpuWorker::backward(const Command& command) {
  const std::int64_t k = command.op.micro_batch.value;
  Segment& segment = *placed(command.op.stage).segment;
  if (segment.recomputes() && !command.recomputed_apart) segment.recompute(k);
  put_output_gradient(command, segment.output_gradient());
  segment.backward(k);
  segment.finish(k);
  trail_.note_released(command.id, *arena_, -1);
}

void GpuWorker::backward_input(const Command& command) {
  const std::int64_t k = command.op.micro_batch.value;
  Segment& segment = *placed(command.op.stage).segment;
  segment.begin_split(k);
  trail_.note_taken(command.id, *arena_, 0);
  put_output_gradient(command, segment.split_output_gradient(k));
  segment.backward_input(k);
}

void GpuWorker::backward_weight(const Command& command) {
  const std::int64_t k = command.op.micro_batch.value;
  Segment& segment = *placed(command.op.stage).segment;
  segment.backward_weight(k);
  segment.finish(k);
  trail_.note_released(command.id, *arena_, -1);
}

void GpuWorker::send(const Command& command) {
  const bool gradient = sends_gradient(command.op.kind);
  const Segment& segment = *placed(command.op.stage).segment;
  const StageId to = gradient ? command.op.stage.previous() : command.op.stage.next();
  const PlacedStage& receiver = rig_.stages.at({command.target, to});
  const std::span<const float> tensor = gradient ? segment.input_gradient() : segment.output();
  const std::span<float> slot = (gradient ? receiver.gradients : receiver.activations).slot(command.sequence);
  const std::int64_t per_sample = scalar_count(tensor) / spec_.batch.sample_count;
  {
    const LaunchScope scope(queue_, transfer_label(command));
    queue_.send(tensor.data() + command.taken.first * per_sample, *rig_.queues[command.target],
                slot.data() + command.placed.first * per_sample, command.taken.count * per_sample);
  }
  if (rig_.links.recorder(command.id) == nullptr) return;
  queue_.record(*rig_.handovers[spec_.id]);
  rig_.links.pass(command, *rig_.handovers[spec_.id], rig_.events);
}

LaunchLabel GpuWorker::transfer_label(const Command& command) const {
  return {.layer = spec_.at(command.op.stage).segment.first_layer,
          .pass = LayerPass::transfer,
          .micro_batch = command.op.micro_batch.value};
}

void GpuWorker::step(StageId stage) {
  Segment& segment = *placed(stage).segment;
  if (keep_gradients_)
    for (std::size_t layer = 0; layer < segment.layer_count(); ++layer)
      gradients_[stage].push_back(downloaded(queue_, segment.gradients(layer)));
  segment.step(spec_.optimizer, iteration_ + 1);
}

// Waits for every queue, whatever fails, so that nothing outlives the iteration.
Result<void> GpuWorker::synchronize() {
  Result<void> first = queue_.synchronize();
  const auto& courier = rig_.couriers[spec_.id];
  Result<void> second = courier ? courier->synchronize() : Result<void>{};
  Result<void> third = rig_.links.synchronize();
  PIPEPLAN_CHECK(first);
  PIPEPLAN_CHECK(second);
  return third;
}

Result<void> GpuWorker::wait_all() {
  if (spec_.is_last(spec_.stages.back().stage)) losses_ = batches_->download_losses();
  PIPEPLAN_CHECK(synchronize());
  for (const CommandId id : enqueued_) {
    PIPEPLAN_TRY(stamp, rig_.events.stamp(id, rig_.clock));
    stamps_.push_back(stamp);
  }
  memory_ = trail_.timed(stamps_, *arena_);
  return {};
}

Result<std::vector<Stamp>> GpuWorker::stamps() { return stamps_; }

std::vector<std::vector<float>> GpuWorker::gradients(StageId stage) const {
  const auto kept = gradients_.find(stage);
  return kept == gradients_.end() ? std::vector<std::vector<float>>{} : kept->second;
}

Result<StageValues> GpuWorker::values(StageId stage) {
  Segment& segment = *placed(stage).segment;
  StageValues values;
  for (std::size_t layer = 0; layer < segment.layer_count(); ++layer) {
    values.parameters.push_back(downloaded(queue_, segment.parameters(layer)));
    values.optimizer_state.push_back(downloaded(queue_, segment.optimizer_state(layer)));
  }
  PIPEPLAN_CHECK(queue_.synchronize());
  return values;
}

Result<void> GpuWorker::set_values(StageId stage, const StageValues& values) {
  Segment& segment = *placed(stage).segment;
  PIPEPLAN_ASSERT(values.parameters.size() == segment.layer_count());
  PIPEPLAN_ASSERT(values.optimizer_state.size() == segment.layer_count());
  for (std::size_t layer = 0; layer < segment.layer_count(); ++layer) {
    upload(queue_, values.parameters[layer], segment.parameters(layer));
    upload(queue_, values.optimizer_state[layer], segment.optimizer_state(layer));
  }
  return queue_.synchronize();
}

}  // namespace pipeplan
