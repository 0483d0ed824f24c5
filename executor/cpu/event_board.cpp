#include "executor/cpu/event_board.hpp"

#include <chrono>

namespace pipeplan {

void EventBoard::signal(CommandId command) {
  done_[command.index()].store(iteration_, std::memory_order_release);
  done_[command.index()].notify_all();
}

void EventBoard::wait(CommandId command) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::microseconds(20);
  std::atomic<std::uint32_t>& flag = done_[command.index()];
  while (std::chrono::steady_clock::now() < give_up)
    if (flag.load(std::memory_order_acquire) == iteration_) return;
  for (std::uint32_t seen = flag.load(std::memory_order_acquire); seen != iteration_;
       seen = flag.load(std::memory_order_acquire))
    flag.wait(seen, std::memory_order_acquire);
}

}  // namespace pipeplan
