#pragma once

// Robust summaries of a handful of measurements.

#include <span>

#include "models/base/units.hpp"

namespace pipeplan {

// The middle value (the lower of two middles); samples must not be empty.
Nanoseconds median(std::span<const Nanoseconds> samples);
// The median of the distances from the median.
Nanoseconds median_absolute_deviation(std::span<const Nanoseconds> samples);
// median_absolute_deviation / median; 0 where the median is 0.
double spread_fraction(std::span<const Nanoseconds> samples);
// The value below which `fraction` of the samples lie (nearest rank), 0 < fraction <= 1.
Nanoseconds quantile(std::span<const Nanoseconds> samples, double fraction);

}  // namespace pipeplan
