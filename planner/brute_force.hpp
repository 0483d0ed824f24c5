#pragma once

// The oracle: tries every split and keeps the best by the order of SplitScore. C(n-1, k-1) splits; for small
// instances.

#include "planner/split.hpp"

namespace pipeplan {

SplitAnswer brute_force(const SplitProblem& problem);

// Largest number of splits that make_plan lets brute force try.
inline constexpr std::int64_t largest_brute_force = 50'000'000;

// C(layers-1, stages-1), the number of splits into non-empty stages; at most most_counted_splits is told
// apart.
std::int64_t split_count(std::int64_t layers, std::int64_t stages);
inline constexpr std::int64_t most_counted_splits = std::int64_t{1} << 60;

}  // namespace pipeplan
