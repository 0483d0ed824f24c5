#pragma once

// One flag per command that threads wait for: set once per iteration, cleared by counting iterations instead
// of writing. Waiting spins for about 20 us, which covers a hand-over between running threads, then sleeps,
// so that a waiting stage leaves its core to others.

#include <atomic>
#include <cstdint>
#include <vector>

#include "executor/program.hpp"

namespace pipeplan {

class EventBoard {
 public:
  explicit EventBoard(std::size_t command_count) : done_(command_count) {}

  // Call while no command runs.
  void begin_iteration(std::int64_t number) { iteration_ = static_cast<std::uint32_t>(number) + 1; }
  void signal(CommandId command);
  void wait(CommandId command);

 private:
  std::vector<std::atomic<std::uint32_t>> done_;  // the iteration that set it last, from 1
  std::uint32_t iteration_ = 0;
};

}  // namespace pipeplan
