#include "executor/sleep/sleep_device.hpp"

#include <algorithm>
#include <chrono>

#include "executor/command_time.hpp"

namespace pipeplan {
namespace {

// What waking up takes at worst on a machine that is not busy.
constexpr Nanoseconds made_up_for = std::chrono::microseconds(500);

}  // namespace

SleepDevice::SleepDevice(WorkerId id, const std::vector<StageId>& stages, const PipelineCosts& costs,
                         EventBoard& events)
    : costs_(costs),
      memory_(costs.memory, stages),
      thread_(*this, {.core = {}, .waiting = Waiting::sleeps}, events, WorkerLinks(id, costs)) {}

Result<void> SleepDevice::begin_iteration(std::int64_t number) {
  thread_.begin_iteration(number);
  memory_.restart();
  given_.clear();
  due_ = Nanoseconds::zero();
  return {};
}

Result<void> SleepDevice::wait_all() {
  thread_.wait_all();
  return {};
}

Nanoseconds SleepDevice::run(const Command& command, Nanoseconds available) {
  const Nanoseconds given = command_time(command, costs_);
  const Nanoseconds now = steady_now();
  Nanoseconds start = std::max(due_, available);
  if (now - start > made_up_for) start = now;
  due_ = start + given;
  sleep_until(due_, Waiting::sleeps);
  given_.push_back(given);
  return due_;
}

void SleepDevice::note(const Command& command, const Stamp& stamp) {
  if (command.kind == CommandKind::compute) memory_.pass(command.op, stamp.start, stamp.end);
}

Result<std::vector<Stamp>> SleepDevice::stamps() {
  std::vector<Stamp> stamps = thread_.stamps();
  for (std::size_t i = 0; i < stamps.size(); ++i)
    stamps[i].cpu = std::min(stamps[i].end - stamps[i].start, given_[i]);
  return stamps;
}

}  // namespace pipeplan
