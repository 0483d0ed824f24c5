#include "planner/plan.hpp"

#include <algorithm>

namespace pipeplan {

std::int64_t Plan::rank_count() const {
  std::int64_t count = 0;
  for (const StagePlan& stage : stages) count = std::max<std::int64_t>(count, stage.rank.value + 1);
  return count;
}

std::int64_t Plan::virtual_stages() const { return stages.empty() ? 1 : stage_count() / rank_count(); }

double Objective::gap_fraction() const {
  if (value == lower_bound) return 0;
  if (lower_bound.count() == 0) return 1;
  return static_cast<double>((value - lower_bound).count()) / static_cast<double>(lower_bound.count());
}

std::vector<std::int64_t> stage_sizes(const Plan& plan) {
  std::vector<std::int64_t> sizes;
  for (const StagePlan& stage : plan.stages) sizes.push_back(stage.last.value - stage.first.value + 1);
  return sizes;
}

std::vector<std::int64_t> stage_bounds(const Plan& plan) {
  std::vector<std::int64_t> bounds{0};
  for (const StagePlan& stage : plan.stages) bounds.push_back(stage.last.value + 1);
  return bounds;
}

}  // namespace pipeplan
