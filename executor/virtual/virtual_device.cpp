#include "executor/virtual/virtual_device.hpp"

#include <algorithm>

#include "simulator/simulate.hpp"

namespace pipeplan {

VirtualDevice::VirtualDevice(StageId stage, const PipelineCosts& costs, VirtualEvents& events)
    : stage_(stage), costs_(costs), events_(events) {}

void VirtualDevice::begin_iteration(std::int64_t) {
  clock_ = forward_link_free_ = backward_link_free_ = Nanoseconds::zero();
  stamps_.clear();
  memory_ = {};
  in_flight_ = 0;
  hold(clock_, 0);
}

void VirtualDevice::enqueue(const Command& command) {
  stamps_.push_back(command.kind == CommandKind::send ? send(command) : run(command));
  events_[command.id.index()] = stamps_.back().end;
}

Stamp VirtualDevice::run(const Command& command) {
  Nanoseconds start = clock_;
  for (const CommandId id : command.waits) start = std::max(start, events_[id.index()]);
  const bool step = command.kind == CommandKind::step;
  const StageTimes& times = costs_.times[stage_];
  clock_ = start + (step ? times.optimizer : op_time(command.op.kind, times));
  if (!step && command.op.kind == OpKind::forward) hold(start, +1);
  if (!step && (command.op.kind == OpKind::backward || command.op.kind == OpKind::backward_weight))
    hold(clock_, -1);
  return {.command = command.id, .start = start, .end = clock_};
}

Stamp VirtualDevice::send(const Command& command) {
  const bool onward = command.op.kind == OpKind::forward;
  const std::size_t boundary = onward ? stage_.index() : stage_.index() - 1;
  Nanoseconds& link_free = onward ? forward_link_free_ : backward_link_free_;
  const Passage passage = pass_link(costs_.transfers, costs_.boundaries.at(boundary), clock_, link_free);
  return {.command = command.id, .start = passage.start, .end = passage.end};
}

void VirtualDevice::hold(Nanoseconds at, std::int64_t change) {
  in_flight_ += change;
  const StageMemory& memory = costs_.memory[stage_];
  MemoryUse use = memory.constant;
  use[MemoryItem::activations] += memory.activation_per_micro_batch * in_flight_;
  memory_.steps.push_back({.at = at, .bytes = use.total(), .in_flight = in_flight_});
  memory_.peak_in_flight = std::max(memory_.peak_in_flight, in_flight_);
  if (memory_.steps.size() > 1 && use.total() <= memory_.peak.total()) return;
  memory_.peak = use;
  memory_.peak_at = at;
}

}  // namespace pipeplan
