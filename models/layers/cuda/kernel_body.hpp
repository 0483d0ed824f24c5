#pragma once

// What a kernel does, apart from who does it. A body is the work on one element, body(index), or on one row,
// body(team, row), which a team shares: a block of threads on the GPU, one thread or several on the CPU,
// where tests run the same bodies. C++17 and <math.h> only: device compilers read it.
//
// Every member of a team calls the same functions in the same order:
//   rank(), size()   which member this is, of how many
//   sum(value)       over all members, largest(value), any(flag): the same bits for each of them. Each is a
//                    barrier: what members wrote before it, all of them see after it.
//   flags()          size() booleans that all members see
//   barrier()

#include <math.h>

#include <cstdint>

#if defined(__CUDACC__)
#define PIPEPLAN_DEVICE __device__
#else
#define PIPEPLAN_DEVICE
#endif

namespace pipeplan {

// Calls body(i) for this member's share of 0 <= i < count.
template<class Team, class Body>
PIPEPLAN_DEVICE void share_out(const Team& team, std::int64_t count, Body body) {
  for (std::int64_t i = team.rank(); i < count; i += team.size()) body(i);
}

// The sum of value(i) over 0 <= i < count.
template<class Sum = float, class Team, class Value>
PIPEPLAN_DEVICE Sum shared_sum(Team& team, std::int64_t count, Value value) {
  Sum sum = 0;
  share_out(team, count, [&](std::int64_t i) { sum += value(i); });
  return team.sum(sum);
}

// A token or class id out of its buffer of floats. Anything but an id is a bug: it stops the kernel.
PIPEPLAN_DEVICE inline std::int64_t checked_id(float id, std::int64_t count) {
  if (!(id >= 0 && id < static_cast<float>(count))) {
#if defined(__CUDA_ARCH__)
    __trap();
#else
    __builtin_trap();
#endif
  }
  return static_cast<std::int64_t>(id);
}

}  // namespace pipeplan
