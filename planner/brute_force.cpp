#include "planner/brute_force.hpp"

#include <numeric>

namespace pipeplan {
namespace {

// The next split in lexicographic order: the last bound that can still grow does, and those after it follow
// closely.
bool advance(std::vector<std::int64_t>& bounds) {
  for (std::size_t i = bounds.size() - 2; i > 0; --i) {
    const auto bounds_behind = static_cast<std::int64_t>(bounds.size() - 1 - i);
    if (bounds[i] + bounds_behind >= bounds.back()) continue;
    std::iota(bounds.begin() + static_cast<std::ptrdiff_t>(i), bounds.end() - 1, bounds[i] + 1);
    return true;
  }
  return false;
}

}  // namespace

SplitAnswer brute_force(const SplitProblem& problem) {
  std::vector<std::int64_t> bounds(static_cast<std::size_t>(problem.stages) + 1);
  std::iota(bounds.begin(), bounds.end(), std::int64_t{0});
  bounds.back() = problem.table->layer_count;
  SplitAnswer best;
  do {
    if (!fits(problem, bounds)) continue;
    SplitScore score = score_split(problem, bounds);
    if (!best || score < *best) best = std::move(score);
  } while (advance(bounds));
  return best;
}

std::int64_t split_count(std::int64_t layers, std::int64_t stages) {
  const std::int64_t smaller = std::min(stages - 1, layers - stages);
  std::int64_t count = 1;
  for (std::int64_t i = 1; i <= smaller; ++i) {
    const auto more = checked_product(count, layers - i, most_counted_splits);
    if (!more) return most_counted_splits;
    count = *more / i;
  }
  return count;
}

}  // namespace pipeplan
