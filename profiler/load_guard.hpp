#pragma once

// The load guard says whether a measurement on CPU threads can be believed: wall-clock time that a computing
// thread did not spend on a core was taken by other work. Clean means less than 2 % stolen.

#include <string>

#include "models/base/units.hpp"

namespace pipeplan {

inline constexpr double largest_clean_steal_fraction = 0.02;

struct LoadVerdict {
  Nanoseconds wall{};  // summed over everything measured
  Nanoseconds cpu{};   // thread CPU time in the same spans
  [[nodiscard]] double steal_fraction() const;
  [[nodiscard]] bool clean() const { return steal_fraction() < largest_clean_steal_fraction; }
  // "clean (0.3 % of the measured time went to other work)".
  [[nodiscard]] std::string sentence() const;
};

// CPU time of the calling thread so far (CLOCK_THREAD_CPUTIME_ID).
Nanoseconds thread_cpu_time();

}  // namespace pipeplan
