#include "executor/threads/steady_sleep.hpp"

#include <sys/prctl.h>

#include <cerrno>
#include <chrono>
#include <ctime>

namespace pipeplan {
namespace {

constexpr Nanoseconds spun_through = std::chrono::microseconds(50);

// libstdc++'s steady clock is CLOCK_MONOTONIC.
void sleep_on_clock(Nanoseconds time) {
  constexpr std::int64_t second = std::nano::den;
  const timespec until{.tv_sec = static_cast<std::time_t>(time.count() / second),
                       .tv_nsec = static_cast<long>(time.count() % second)};
  while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
  }
}

}  // namespace

Nanoseconds steady_now() { return std::chrono::steady_clock::now().time_since_epoch(); }

void sharpen_timers() { ::prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL); }

void sleep_until(Nanoseconds time, Waiting waiting) {
  const Nanoseconds asleep_until = waiting == Waiting::spins ? time - spun_through : time;
  if (asleep_until > steady_now()) sleep_on_clock(asleep_until);
  while (steady_now() < time) {
  }
}

}  // namespace pipeplan
