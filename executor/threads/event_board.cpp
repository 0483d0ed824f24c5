#include "executor/threads/event_board.hpp"

#include <chrono>

namespace pipeplan {
namespace {

constexpr Nanoseconds spun_through = std::chrono::microseconds(20);

}  // namespace

void EventBoard::signal(CommandId command, Nanoseconds arrival) {
  arrivals_[command.index()] = arrival;
  done_[command.index()].store(iteration_, std::memory_order_release);
  done_[command.index()].notify_all();
}

Nanoseconds EventBoard::wait(CommandId command) {
  std::atomic<std::uint32_t>& flag = done_[command.index()];
  std::uint32_t seen = flag.load(std::memory_order_acquire);
  if (waiting_ == Waiting::spins && seen != iteration_) {
    const Nanoseconds give_up = steady_now() + spun_through;
    while (seen != iteration_ && steady_now() < give_up) seen = flag.load(std::memory_order_acquire);
  }
  for (; seen != iteration_; seen = flag.load(std::memory_order_acquire))
    flag.wait(seen, std::memory_order_acquire);
  return arrivals_[command.index()];
}

}  // namespace pipeplan
