#include "executor/virtual/virtual_device.hpp"

#include <algorithm>

#include "executor/command_time.hpp"

namespace pipeplan {

VirtualDevice::VirtualDevice(WorkerId id, const std::vector<StageId>& stages, const PipelineCosts& costs,
                             VirtualEvents& events)
    : costs_(costs), events_(events), memory_(costs.memory, stages), links_(id, costs) {}

Result<void> VirtualDevice::begin_iteration(std::int64_t) {
  clock_ = Nanoseconds::zero();
  links_.restart();
  memory_.restart();
  stamps_.clear();
  return {};
}

void VirtualDevice::enqueue(const Command& command) {
  stamps_.push_back(command.kind == CommandKind::send ? send(command) : run(command));
  events_[command.id.index()] = stamps_.back().end;
}

Stamp VirtualDevice::run(const Command& command) {
  Nanoseconds start = clock_;
  for (const CommandId id : command.waits) start = std::max(start, events_[id.index()]);
  clock_ = start + command_time(command, costs_);
  if (command.kind == CommandKind::compute) memory_.pass(command.op, start, clock_);
  return {.command = command.id, .start = start, .end = clock_, .cpu = clock_ - start};
}

Stamp VirtualDevice::send(const Command& command) {
  const Passage passage = links_.pass(command, clock_);
  return {.command = command.id, .start = passage.start, .end = passage.end};
}

}  // namespace pipeplan
