#include "profiler/load_guard.hpp"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>

namespace pipeplan {

double LoadVerdict::steal_fraction() const {
  if (wall <= Nanoseconds::zero()) return 0;
  const auto stolen = std::max(wall - cpu, Nanoseconds::zero());
  return static_cast<double>(stolen.count()) / static_cast<double>(wall.count());
}

std::string LoadVerdict::sentence() const {
  return fmt::format(
      "{} ({:.1f} % of the measured time went to other work on the cores; clean is below {:.0f} %)",
      clean() ? "clean" : "busy machine", 100 * steal_fraction(), 100 * largest_clean_steal_fraction);
}

Nanoseconds thread_cpu_time() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + Nanoseconds(time.tv_nsec);
}

}  // namespace pipeplan
