#include "planner/even_split.hpp"

#include <algorithm>

namespace pipeplan {

std::vector<std::int64_t> even_bounds(std::int64_t layers, std::int64_t stages) {
  std::vector<std::int64_t> bounds;
  for (std::int64_t stage = 0; stage <= stages; ++stage)
    bounds.push_back(stage * (layers / stages) + std::min(stage, layers % stages));
  return bounds;
}

SplitAnswer even_split(const SplitProblem& problem) {
  const std::vector<std::int64_t> bounds = even_bounds(problem.table->layer_count, problem.stages);
  if (!fits(problem, bounds)) return std::nullopt;
  return score_split(problem, bounds);
}

}  // namespace pipeplan
