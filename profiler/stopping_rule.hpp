#pragma once

// When a series of repeated measurements is good enough: at least `least` samples, then as soon as the
// relative standard error of the mean (estimated from the median absolute deviation) is below
// `wanted_error_fraction`, at the latest after `most` samples or `longest` of measuring.

#include <span>

#include "models/base/units.hpp"

namespace pipeplan {

struct StoppingRule {
  std::int64_t warm_ups = 3;
  std::int64_t least = 15;
  std::int64_t most = 60;
  double wanted_error_fraction = 0.005;
  Nanoseconds longest = std::chrono::seconds(20);

  [[nodiscard]] bool enough(std::span<const Nanoseconds> samples, Nanoseconds spent) const;
};

}  // namespace pipeplan
