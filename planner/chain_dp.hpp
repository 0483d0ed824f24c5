#pragma once

// Exact planning of a chain (or of a fixed layer order): the smallest slowest stage over all splits into
// exactly k non-empty contiguous stages that fit in memory, then the documented tie-breaks, so that the
// answer is unique. Each criterion in turn is a search for the smallest limit that can be kept, among the
// splits that keep those before it. One question of the search costs O(k log n + b), b <= k n the places
// where a cut can still be; receive buffers and inputs of recomputed layers that are large beside the
// memory left can add the width of the windows they make doubtful.

#include "planner/split.hpp"

namespace pipeplan {

SplitAnswer chain_dp(const SplitProblem& problem);

// The smallest device memory (the same for all, reserved included) with which `problem` has any split, and
// that split.
struct SmallestMemory {
  Bytes memory;
  std::vector<std::int64_t> bounds;
};
SmallestMemory smallest_memory(const SplitProblem& problem);

}  // namespace pipeplan
