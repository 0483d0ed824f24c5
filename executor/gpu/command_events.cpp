#include "executor/gpu/command_events.hpp"

#include "models/base/assert.hpp"

namespace pipeplan {

Result<GpuClock> GpuClock::make(std::vector<GpuQueue*> queues) {
  GpuClock clock;
  clock.queues_ = std::move(queues);
  for (GpuQueue* queue : clock.queues_) {
    Base& base = clock.bases_[queue->part().device];
    if (base.queue != nullptr) continue;
    PIPEPLAN_TRY(event, queue->make_event(EventUse::timing));
    base.queue = queue;
    base.event = std::move(event);
  }
  return clock;
}

void GpuClock::start_once() {
  if (started_) return;
  started_ = true;
  for (auto& [device, base] : bases_) base.queue->record(*base.event);
  for (GpuQueue* queue : queues_)
    for (const auto& [device, base] : bases_) queue->wait(*base.event);
}

Result<Nanoseconds> GpuClock::at(const GpuEvent& event, std::int64_t device) const {
  const Base& base = bases_.at(device);
  return base.queue->elapsed(*base.event, event);
}

CommandEvents::CommandEvents(const Program& program)
    : events_(program.commands.size()), awaited_(program.commands.size(), false) {
  for (const Command& command : program.commands)
    for (const CommandId id : command.waits) awaited_[id.index()] = true;
}

Result<void> CommandEvents::make(CommandId command, GpuQueue& queue) {
  Events& events = events_.at(command.index());
  events.device = queue.part().device;
  PIPEPLAN_TRY(start, queue.make_event(EventUse::timing));
  PIPEPLAN_TRY(end, queue.make_event(EventUse::timing));
  events.start = std::move(start);
  events.end = std::move(end);
  if (!awaited_[command.index()]) return {};
  PIPEPLAN_TRY(done, queue.make_event(EventUse::ordering));
  events.done = std::move(done);
  return {};
}

void CommandEvents::begin(CommandId command, GpuQueue& queue) {
  queue.record(*events_.at(command.index()).start);
}

void CommandEvents::end(CommandId command, GpuQueue& queue) {
  const Events& events = events_.at(command.index());
  queue.record(*events.end);
  if (events.done) queue.record(*events.done);
}

const GpuEvent& CommandEvents::done(CommandId command) const {
  const Events& events = events_.at(command.index());
  PIPEPLAN_ASSERT(events.done != nullptr);
  return *events.done;
}

Result<Stamp> CommandEvents::stamp(CommandId command, const GpuClock& clock) const {
  const Events& events = events_.at(command.index());
  PIPEPLAN_TRY(start, clock.at(*events.start, events.device));
  PIPEPLAN_TRY(end, clock.at(*events.end, events.device));
  // All of it is the GPU's own time: no other program takes any away, as it may of a thread's.
  return Stamp{.command = command, .start = start, .end = end, .cpu = end - start};
}

}  // namespace pipeplan
