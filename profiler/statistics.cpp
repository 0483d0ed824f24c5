#include "profiler/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "models/base/assert.hpp"

namespace pipeplan {

Nanoseconds quantile(std::span<const Nanoseconds> samples, double fraction) {
  PIPEPLAN_ASSERT(!samples.empty() && fraction > 0 && fraction <= 1);
  std::vector<Nanoseconds> sorted(samples.begin(), samples.end());
  const auto rank = static_cast<std::size_t>(std::ceil(fraction * static_cast<double>(sorted.size())));
  const auto place = sorted.begin() + static_cast<std::ptrdiff_t>(std::max<std::size_t>(rank, 1) - 1);
  std::nth_element(sorted.begin(), place, sorted.end());
  return *place;
}

Nanoseconds median(std::span<const Nanoseconds> samples) { return quantile(samples, 0.5); }

Nanoseconds median_absolute_deviation(std::span<const Nanoseconds> samples) {
  const Nanoseconds middle = median(samples);
  std::vector<Nanoseconds> distances;
  distances.reserve(samples.size());
  for (const Nanoseconds sample : samples) distances.push_back(std::chrono::abs(sample - middle));
  return median(distances);
}

double spread_fraction(std::span<const Nanoseconds> samples) {
  const Nanoseconds middle = median(samples);
  if (middle == Nanoseconds::zero()) return 0;
  return static_cast<double>(median_absolute_deviation(samples).count()) /
         static_cast<double>(middle.count());
}

}  // namespace pipeplan
