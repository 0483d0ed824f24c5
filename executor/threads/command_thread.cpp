#include "executor/threads/command_thread.hpp"

#include <algorithm>

#include "models/layers/core_pin.hpp"
#include "profiler/load_guard.hpp"

namespace pipeplan {

CommandThread::CommandThread(CommandRunner& runner, ThreadPlace place, EventBoard& events,
                             std::optional<WorkerLinks> links)
    : runner_(runner), place_(place), events_(events), links_(std::move(links)) {
  thread_ = std::thread([this] { work(); });
  wait_all();
}

CommandThread::~CommandThread() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void CommandThread::begin_iteration(std::int64_t number) {
  events_.begin_iteration(number);
  if (links_) links_->restart();
  stamps_.clear();
}

void CommandThread::enqueue(const Command& command) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(&command);
    busy_ = true;
  }
  changed_.notify_all();
}

void CommandThread::wait_all() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !busy_ && queue_.empty(); });
}

void CommandThread::work() {
  if (place_.core) pin_to_core(*place_.core);
  sharpen_timers();
  runner_.set_up();
  while (const Command* command = next()) run(*command);
}

// The next command, or null at the end.
const Command* CommandThread::next() {
  std::unique_lock lock(mutex_);
  if (queue_.empty()) {
    busy_ = false;
    changed_.notify_all();
  }
  changed_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
  if (queue_.empty()) return nullptr;
  const Command* command = queue_.front();
  queue_.pop_front();
  return command;
}

Nanoseconds CommandThread::wait_for_inputs(const Command& command) {
  Nanoseconds available{};
  for (const CommandId id : command.waits) available = std::max(available, events_.wait(id));
  sleep_until(available, place_.waiting);
  return available;
}

void CommandThread::run(const Command& command) {
  const Nanoseconds available = wait_for_inputs(command);
  Stamp stamp{.command = command.id, .start = steady_now()};
  const Nanoseconds cpu_start = thread_cpu_time();
  Nanoseconds arrival = runner_.run(command, available);
  stamp.cpu = thread_cpu_time() - cpu_start;
  stamp.end = steady_now();
  if (command.kind == CommandKind::send && links_) {
    const Passage passage = links_->pass(command, arrival);
    stamp.start = passage.start;
    stamp.end = arrival = passage.end;
  }
  runner_.note(command, stamp);
  stamps_.push_back(stamp);
  events_.signal(command.id, arrival);
}

}  // namespace pipeplan
