#pragma once

// The clock that all SMs of a GPU share.

#include <cstdint>

namespace pipeplan {

__device__ inline std::int64_t clock_ns() {
  std::int64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

// Keeps the calling thread from the SM, not from its place on it. A sleep may last twice as long as asked.
__device__ inline void sleep_ns(std::int64_t duration) {
  const std::int64_t end = clock_ns() + duration;
  for (std::int64_t left = duration; left > 0; left = end - clock_ns())
    __nanosleep(left < 2000 ? static_cast<unsigned>(left) / 2 : 1000U);
}

}  // namespace pipeplan
