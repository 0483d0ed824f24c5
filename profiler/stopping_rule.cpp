#include "profiler/stopping_rule.hpp"

#include <cmath>

#include "profiler/statistics.hpp"

namespace pipeplan {

bool StoppingRule::enough(std::span<const Nanoseconds> samples, Nanoseconds spent) const {
  const auto count = static_cast<std::int64_t>(samples.size());
  if (count < least) return false;
  if (count >= most || spent >= longest) return true;
  // A normal distribution's standard deviation is 1.4826 times its median absolute deviation.
  const double error = 1.4826 * spread_fraction(samples) / std::sqrt(static_cast<double>(count));
  return error < wanted_error_fraction;
}

}  // namespace pipeplan
