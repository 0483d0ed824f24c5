#pragma once

// One flag per command that threads wait for: set once per iteration, cleared by counting iterations instead
// of writing. A flag carries a time before which its command does not count as done: when an emulated link
// delivers. Waiting spins for about 20 us, where that takes the core from nobody, which covers a hand-over
// between running threads; then it sleeps.

#include <atomic>
#include <cstdint>
#include <vector>

#include "executor/program.hpp"
#include "executor/threads/steady_sleep.hpp"

namespace pipeplan {

class EventBoard {
 public:
  EventBoard(std::size_t command_count, Waiting waiting)
      : done_(command_count), arrivals_(command_count), waiting_(waiting) {}

  // Call while no command runs; again with the same number changes nothing.
  void begin_iteration(std::int64_t number) { iteration_ = static_cast<std::uint32_t>(number) + 1; }
  void signal(CommandId command, Nanoseconds arrival);
  // Returns once the command has been signalled, with its arrival on the steady clock.
  Nanoseconds wait(CommandId command);

 private:
  std::vector<std::atomic<std::uint32_t>> done_;  // the iteration that set it last, from 1
  std::vector<Nanoseconds> arrivals_;             // written before the flag, read after it
  Waiting waiting_;
  std::uint32_t iteration_ = 0;
};

}  // namespace pipeplan
