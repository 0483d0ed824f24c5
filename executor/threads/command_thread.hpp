#pragma once

// The thread of a worker, for every device that has one: runs commands in the order in which they are
// enqueued, each after its waits have arrived, stamps them on the steady clock and signals them on the event
// board. Where links are given, what is sent arrives no sooner than over them: its copy is made at once, its
// event bears the time of arrival, and the receiver waits for that.

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "executor/device.hpp"
#include "executor/threads/event_board.hpp"
#include "executor/worker_links.hpp"

namespace pipeplan {

// What a command thread runs; its owner. All calls come from the thread.
class CommandRunner {
 public:
  virtual ~CommandRunner() = default;
  // Before the first command.
  virtual void set_up() {}
  // Everything that the command waits for had arrived at `available`. Returns when the result was ready: now,
  // or when it ought to have been where the runner is late against a schedule of its own.
  virtual Nanoseconds run(const Command& command, Nanoseconds available) = 0;
  virtual void note(const Command& command, const Stamp& stamp) = 0;
};

struct ThreadPlace {
  std::optional<int> core;  // stays on it
  Waiting waiting = Waiting::spins;
};

class CommandThread {
 public:
  // Returns once the runner is set up. `runner` and `events` outlive the thread: declare it last.
  CommandThread(CommandRunner& runner, ThreadPlace place, EventBoard& events,
                std::optional<WorkerLinks> links);
  ~CommandThread();
  CommandThread(const CommandThread&) = delete;
  CommandThread& operator=(const CommandThread&) = delete;

  // While the thread is idle.
  void begin_iteration(std::int64_t number);
  void enqueue(const Command& command);
  void wait_all();
  // While the thread is idle.
  [[nodiscard]] const std::vector<Stamp>& stamps() const { return stamps_; }

 private:
  void work();
  const Command* next();
  void run(const Command& command);
  [[nodiscard]] Nanoseconds wait_for_inputs(const Command& command);

  CommandRunner& runner_;
  ThreadPlace place_;
  EventBoard& events_;
  std::optional<WorkerLinks> links_;
  std::vector<Stamp> stamps_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<const Command*> queue_;
  bool busy_ = true;  // until the runner is set up
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace pipeplan
