#include "executor/cpu/cpu_device.hpp"

#include <algorithm>

#include "executor/command_time.hpp"
#include "models/base/assert.hpp"

namespace pipeplan {
namespace {

std::optional<WorkerLinks> links_of(const CpuWorkerSpec& spec) {
  if (spec.links == nullptr) return std::nullopt;
  return WorkerLinks(spec.id, *spec.links);
}

std::vector<float> copy_of(std::span<const float> values) { return {values.begin(), values.end()}; }

}  // namespace

Bytes CpuDevice::memory_needed(const CpuWorkerSpec& spec) {
  Bytes sum;
  for (const CpuStageSpec& stage : spec.stages) {
    const SegmentSpec& segment = stage.segment;
    sum += segment_memory(segment, stage.peak_in_flight, stage.split_in_flight).total();
    sum += layer_bytes(*segment.layers.front(), segment.batch).input * stage.activation_slots;
    sum += layer_bytes(*segment.layers.back(), segment.batch).output * stage.gradient_slots;
  }
  return sum;
}

CpuDevice::CpuDevice(CpuWorkerSpec spec, Arena arena, CpuRig& rig)
    : spec_(std::move(spec)),
      arena_(std::move(arena)),
      rig_(rig),
      batches_(spec_.batch),
      thread_(*this, spec_.place, rig.events, links_of(spec_)) {}

void CpuDevice::set_up() {
  for (const CpuStageSpec& stage : spec_.stages) {
    const SegmentSpec& segment = stage.segment;
    CpuStageMemory& memory = rig_.stages[{spec_.id, stage.stage}];
    memory.segment = std::make_unique<Segment>(segment, *rig_.processor, arena_);
    memory.segment->initialize(static_cast<std::uint64_t>(spec_.batch.seed));
    const auto inputs = static_cast<std::size_t>(segment.layers.front()->input_count(segment.batch));
    const auto outputs = static_cast<std::size_t>(segment.layers.back()->output_count(segment.batch));
    memory.activations.open(arena_, stage.activation_slots, inputs);
    memory.gradients.open(arena_, stage.gradient_slots, outputs);
    if (is_last(stage.stage)) losses_.resize(static_cast<std::size_t>(spec_.batch.micro_batch_count));
  }
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
  const CpuStageMemory& memory = stage_memory(stage);
  memory.segment->begin(k);
  const std::span<float> input = memory.segment->input(k);
  if (stage.value == 0)
    std::ranges::copy(batches_.inputs(k), input.begin());
  else
    std::ranges::copy(memory.activations.slot(command.sequence), input.begin());
  if (is_last(stage)) std::ranges::copy(batches_.targets(k), memory.segment->targets(k).begin());
  memory.segment->forward(k);
  if (is_last(stage)) losses_[static_cast<std::size_t>(k)] = memory.segment->output()[0];
}

void CpuDevice::put_output_gradient(const Command& command, std::span<float> place) const {
  if (is_last(command.op.stage))
    std::ranges::fill(place, spec_.loss_factor);
  else
    std::ranges::copy(stage_memory(command.op.stage).gradients.slot(command.sequence), place.begin());
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
  const CpuStageMemory& receiver = rig_.stages.at({command.target, to});
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
  const auto& all = peers(stage);
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
  if (spec_.links != nullptr) sleep_until(start + command_time(command, *spec_.links), spec_.place.waiting);
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

const std::vector<WorkerId>& CpuDevice::peers(StageId stage) const {
  return std::ranges::find(spec_.stages, stage, &CpuStageSpec::stage)->peers;
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
