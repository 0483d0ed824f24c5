#pragma once

// The usual baseline: as equal layer counts per stage as possible, the longer stages first. It looks at no
// cost; memory decides only whether the split is an answer.

#include "planner/split.hpp"

namespace pipeplan {

// n = q k + r layers: the first r stages take q + 1 layers, the others q.
std::vector<std::int64_t> even_bounds(std::int64_t layers, std::int64_t stages);

SplitAnswer even_split(const SplitProblem& problem);

}  // namespace pipeplan
