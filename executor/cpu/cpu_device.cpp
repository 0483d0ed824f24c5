#include "executor/cpu/cpu_device.hpp"

#include <algorithm>

#include "executor/command_time.hpp"
#include "models/base/assert.hpp"

namespace pipeplan {
namespace {

std::optional<WorkerLinks> links_of(WorkerId worker, const CpuRig& rig) {
  if (rig.links == nullptr) return std::nullopt;
  return WorkerLinks(worker, *rig.links);
}

std::vector<float> copy_of(std::span<const float> values) { return {values.begin(), values.end()}; }

}  // namespace

CpuDevice::CpuDevice(WorkerSpec spec, std::optional<int> core, Arena arena, CpuRig& rig)
    : spec_(std::move(spec)),
      arena_(std::move(arena)),
      rig_(rig),
      batches_(spec_.batch),
      thread_(*this, {.core = core, .waiting = rig.waiting}, rig.events, links_of(spec_.id, rig)) {}

void CpuDevice::set_up() {
  place_stages(spec_, *rig_.processor, arena_, rig_.stages);
  if (spec_.is_last(spec_.stages.back().stage))
    losses_.resize(static_cast<std::size_t>(spec_.batch.micro_batch_count));
}

Result<void> CpuDevice::begin_iteration(std::int64_t number) {
  iteration_ = number;
  thread_.begin_iteration(number);
  arena_.reset_peak();
  memory_steps_ = {{.at = {}, .bytes = arena_.in_use().total()}};
  gradients_.clear();
  batches_.load(number);
  return {};
}

Result<void> CpuDevice::wait_all() {
  thread_.wait_all();
  return {};
}

Nanoseconds CpuDevice::run(const Command& command, Nanoseconds) {
  const Nanoseconds start = steady_now();
  switch (command.kind) {
    case CommandKind::compute: compute(command); break;
    case CommandKind::send: send(command); break;
    case CommandKind::reduce_scatter:
    case CommandKind::all_gather:
      exchange(command);
      wait_for_ring(command, start);
      break;
    case CommandKind::step: step(command.op.stage); break;
  }
  return steady_now();
}

void CpuDevice::compute(const Command& command) {
  switch (command.op.kind) {
    case OpKind::forward: return forward(command);
    case OpKind::backward: return backward(command);
    case OpKind::backward_input: return backward_input(command);
    case OpKind::backward_weight: return backward_weight(command);
    case OpKind::recompute: return segment(command.op.stage).recompute(command.op.micro_batch.value);
  }
}

void CpuDevice::forward(const Command& command) {
  const StageId stage = command.op.stage;
  const std::int64_t k = command.op.micro_batch.value;
  const PlacedStage& here = placed(stage);
  here.segment->begin(k);
  const std::span<float> input = here.segment->input(k);
  if (stage.value == 0)
    std::ranges::copy(batches_.inputs(k), input.begin());
  else
    std::ranges::copy(here.activations.slot(command.sequence), input.begin());
  if (spec_.is_last(stage)) std::ranges::copy(batches_.targets(k), here.segment->targets(k).begin());
  here.segment->forward(k);
  if (spec_.is_last(stage)) losses_[static_cast<std::size_t>(k)] = here.segment->output()[0];
}

void CpuDevice::put_output_gradient(const Command& command, std::span<float> place) const {
  if (spec_.is_last(command.op.stage))
    std::ranges::fill(place, spec_.loss_factor);
  else
    std::ranges::copy(placed(command.op.stage).gradients.slot(command.sequence), place.begin());
}

void CpuDevice::backward(const Command& command) {
  const std::int64_t k = command.op.micro_batch.value;
  Segment& segment = this->segment(command.op.stage);
  if (segment.recomputes() && !command.recomputed_apart) segment.recompute(k);
  put_output_gradient(command, segment.output_gradient());
  segment.backward(k);
  segment.finish(k);
}

void CpuDevice::backward_input(const Command& command) {
  const std::int64_t k = command.op.micro_batch.value;
  Segment& segment = this->segment(command.op.stage);
  segment.begin_split(k);
  put_output_gradient(command, segment.split_output_gradient(k));
  segment.backward_input(k);
}

void CpuDevice::backward_weight(const Command& command) {
  const std::int64_t k = command.op.micro_batch.value;
  Segment& segment = this->segment(command.op.stage);
  segment.backward_weight(k);
  segment.finish(k);
}

void CpuDevice::send(const Command& command) const {
  const bool gradient = sends_gradient(command.op.kind);
  const StageId from = command.op.stage, to = gradient ? from.previous() : from.next();
  const PlacedStage& receiver = rig_.stages.at({command.target, to});
  const std::span<const float> tensor = gradient ? segment(from).input_gradient() : segment(from).output();
  const std::span<float> slot = (gradient ? receiver.gradients : receiver.activations).slot(command.sequence);
  const std::size_t per_sample = tensor.size() / static_cast<std::size_t>(spec_.batch.sample_count);
  const auto scalars = [per_sample](std::int64_t samples) {
    return per_sample * static_cast<std::size_t>(samples);
  };
  std::ranges::copy(tensor.subspan(scalars(command.taken.first), scalars(command.taken.count)),
                    slot.subspan(scalars(command.placed.first), scalars(command.placed.count)).begin());
}

void CpuDevice::exchange(const Command& command) const {
  const StageId stage = command.op.stage;
  const auto& all = spec_.at(stage).peers;
  const auto own = static_cast<std::size_t>(std::ranges::find(all, spec_.id) - all.begin());
  for (std::size_t layer = 0; layer < segment(stage).layer_count(); ++layer) {
    PeerGradients gradients;
    for (const WorkerId peer : all)
      gradients.push_back(rig_.stages.at({peer, stage}).segment->gradients(layer));
    command.kind == CommandKind::reduce_scatter ? reduce_scatter(gradients, own) : all_gather(gradients, own);
  }
}

// Where links are emulated, the ring takes its time too.
void CpuDevice::wait_for_ring(const Command& command, Nanoseconds start) const {
  if (rig_.links != nullptr) sleep_until(start + command_time(command, *rig_.links), rig_.waiting);
}

void CpuDevice::step(StageId stage) {
  Segment& segment = this->segment(stage);
  if (keep_gradients_)
    for (std::size_t layer = 0; layer < segment.layer_count(); ++layer)
      gradients_[stage].push_back(copy_of(segment.gradients(layer)));
  segment.step(spec_.optimizer, iteration_ + 1);
}

// An op that takes memory has it from its start, one that gives some back does so at its end.
void CpuDevice::note(const Command& command, const Stamp& stamp) {
  if (command.kind != CommandKind::compute) return;
  const bool takes = command.op.kind == OpKind::forward || command.op.kind == OpKind::backward_input;
  const bool gives_back = releases_activations(command.op.kind);
  if (!takes && !gives_back) return;
  if (command.op.kind == OpKind::forward) ++in_flight_;
  if (gives_back) --in_flight_;
  memory_steps_.push_back(
      {.at = takes ? stamp.start : stamp.end, .bytes = arena_.in_use().total(), .in_flight = in_flight_});
}

RankMemory CpuDevice::memory() const {
  RankMemory memory{.steps = memory_steps_, .peak = arena_.at_peak()};
  for (const MemoryStep& step : memory_steps_)
    memory.peak_in_flight = std::max(memory.peak_in_flight, step.in_flight);
  memory.peak_at = std::ranges::max_element(memory_steps_, {}, &MemoryStep::bytes)->at;
  return memory;
}

std::vector<std::vector<float>> CpuDevice::gradients(StageId stage) const {
  const auto kept = gradients_.find(stage);
  return kept == gradients_.end() ? std::vector<std::vector<float>>{} : kept->second;
}

Result<StageValues> CpuDevice::values(StageId stage) {
  StageValues values;
  for (std::size_t layer = 0; layer < segment(stage).layer_count(); ++layer) {
    values.parameters.push_back(copy_of(segment(stage).parameters(layer)));
    values.optimizer_state.push_back(copy_of(segment(stage).optimizer_state(layer)));
  }
  return values;
}

Result<void> CpuDevice::set_values(StageId stage, const StageValues& values) {
  for (std::size_t layer = 0; layer < segment(stage).layer_count(); ++layer) {
    std::ranges::copy(values.parameters.at(layer), segment(stage).parameters(layer).begin());
    std::ranges::copy(values.optimizer_state.at(layer), segment(stage).optimizer_state(layer).begin());
  }
  return {};
}

}  // namespace pipeplan
