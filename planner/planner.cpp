#include "planner/planner.hpp"

#include <fmt/format.h>

#include <map>

#include <algorithm>

#include "models/base/assert.hpp"
#include "planner/batch.hpp"
#include "planner/brute_force.hpp"
#include "planner/chain_dp.hpp"
#include "planner/even_split.hpp"
#include "planner/infeasible.hpp"
#include "planner/memory.hpp"
#include "planner/plan_warnings.hpp"

namespace pipeplan {
namespace {

struct StageRange {
  std::int64_t fewest, most;
};

Result<StageRange> stage_range(const Profile& profile, const Cluster& cluster, const PlanOptions& options) {
  const auto layers = static_cast<std::int64_t>(profile.layers.size());
  if (layers == 0) return bad_input(profile.model, "has 0 layers, wanted at least 1");
  const std::int64_t natural = std::min(layers, cluster.device_count());
  const bool open = !options.fewest_stages && !options.most_stages;
  const StageRange range{options.fewest_stages.value_or(open ? natural : 1),
                         options.most_stages.value_or(natural)};
  if (range.fewest < 1) return bad_usage(fmt::format("{} stages asked for, wanted at least 1", range.fewest));
  if (range.fewest > layers || range.most > layers)
    return bad_usage(fmt::format("{} stages asked for, but '{}' has {} layers",
                                 std::max(range.fewest, range.most), profile.model, layers));
  if (range.fewest > cluster.device_count() || range.most > cluster.device_count())
    return bad_usage(fmt::format("{} stages asked for, but cluster '{}' has {} devices",
                                 std::max(range.fewest, range.most), cluster.name, cluster.device_count()));
  if (range.fewest > range.most)
    return bad_usage(fmt::format("fewest stages {} are more than most stages {}", range.fewest, range.most));
  return range;
}

Result<void> check_state(const StateRule& state) {
  if (!state.total_factor || (*state.total_factor >= 0 && *state.total_factor <= largest_state_factor))
    return {};
  return bad_usage(fmt::format("state bytes per parameter byte are {}, wanted a number from 0 to {}",
                               *state.total_factor, largest_state_factor));
}

Result<void> check_search(const PlanOptions& options, std::int64_t layers, std::int64_t stages) {
  if (options.algorithm != Algorithm::brute_force || split_count(layers, stages) <= largest_brute_force)
    return {};
  return bad_usage(
      fmt::format("brute force would try {} splits of {} layers into {} stages, wanted at most {}",
                  split_count(layers, stages), layers, stages, largest_brute_force),
      "chain-dp finds the same plan");
}

Cluster with_memory(Cluster cluster, const std::optional<Bytes>& memory) {
  if (memory)
    for (auto& [name, type] : cluster.device_types) type.memory = memory;
  return cluster;
}

SplitProblem make_problem(const CostTable& table, const Cluster& cluster, const PlanOptions& options,
                          const Batch& batch, std::int64_t stages) {
  SplitProblem problem{
      &table, stages, batch.micro_batch_count, options.schedule, options.transfers, options.state, {}, {}};
  for (const DeviceId device : ids<DeviceId>(static_cast<std::size_t>(stages))) {
    problem.devices.push_back(cluster.type(device));
    if (device.value > 0) problem.links.push_back(cluster.link_between(device.previous(), device));
  }
  return problem;
}

SplitAnswer solve(Algorithm algorithm, const SplitProblem& problem) {
  switch (algorithm) {
    case Algorithm::chain_dp: return chain_dp(problem);
    case Algorithm::even_split: return even_split(problem);
    case Algorithm::brute_force: return brute_force(problem);
  }
  PIPEPLAN_UNREACHABLE("an algorithm without a solver");
}

Infeasible why_infeasible(Algorithm algorithm, const SplitProblem& problem) {
  if (algorithm == Algorithm::even_split) {
    SplitScore only = score_split(problem, even_bounds(problem.table->layer_count, problem.stages));
    return explain_infeasible(problem, only.bounds, Bytes{only.largest_memory});
  }
  const SmallestMemory smallest = smallest_memory(problem);
  return explain_infeasible(problem, smallest.bounds, smallest.memory);
}

// The answers for the stage counts so far.
struct Best {
  std::optional<SplitProblem> problem;  // of `score`
  SplitScore score;
  std::optional<Infeasible> infeasible;  // that needs the least memory
};

// Stage counts come in ascending order, so that the fewer stages stay at a tie.
void consider(Best& best, Algorithm algorithm, SplitProblem problem) {
  if (SplitAnswer answer = solve(algorithm, problem)) {
    if (best.problem && best.score.slowest_ns <= answer->slowest_ns) return;
    best.problem = std::move(problem);
    best.score = std::move(*answer);
  } else if (!best.problem) {
    const Infeasible why = why_infeasible(algorithm, problem);
    if (!best.infeasible || why.smallest_memory < best.infeasible->smallest_memory) best.infeasible = why;
  }
}

void place_stages(Plan& plan, const std::vector<std::int64_t>& bounds) {
  for (std::size_t stage = 0; stage + 1 < bounds.size(); ++stage)
    plan.stages.push_back({id_of<LayerId>(static_cast<std::size_t>(bounds[stage])),
                           id_of<LayerId>(static_cast<std::size_t>(bounds[stage + 1] - 1)),
                           id_of<RankId>(stage), id_of<DeviceId>(stage)});
}

Objective proved(const Best& best, Algorithm algorithm) {
  Objective objective;
  objective.value = Nanoseconds{best.score.slowest_ns};
  objective.trivial_bound = Nanoseconds{trivial_bound(*best.problem)};
  const bool exact = algorithm != Algorithm::even_split;
  objective.lower_bound = exact ? objective.value : objective.trivial_bound;
  return objective;
}

void predict(Plan& plan, const PipelineCosts& costs) {
  for (const StageId stage : ids<StageId>(plan.stages.size())) {
    const std::int64_t held =
        in_flight(plan.schedule, plan.stage_count(), plan.micro_batch_count, stage.value);
    plan.prediction.peak_memory.push_back(peak_memory(costs.memory[stage], held));
  }
  for (const BoundaryCosts& boundary : costs.boundaries) plan.prediction.transfer.push_back(boundary.bytes);
}

Plan unplaced(const Profile& profile, Cluster cluster, const PlanOptions& options, const Batch& batch) {
  Plan plan;
  plan.model = profile.model;
  plan.profile_digest = profile_digest(profile);
  plan.cluster = std::move(cluster);
  plan.schedule = options.schedule;
  plan.transfers = options.transfers;
  plan.state = options.state;
  plan.micro_batch_size = batch.micro_batch_size;
  plan.micro_batch_count = batch.micro_batch_count;
  plan.algorithm = spelt(options.algorithm);
  for (const ProfiledLayer& layer : profile.layers) plan.layer_names.push_back(layer.name);
  return plan;
}

// Layers that must share a stage would forbid cuts, which no algorithm here knows of: better no plan than a
// wrong one.
Result<void> check_colocation(const Profile& profile) {
  std::map<std::string, std::string> first_of_group;
  for (const ProfiledLayer& layer : profile.layers) {
    if (!layer.colocation) continue;
    const auto [group, fresh] = first_of_group.emplace(*layer.colocation, layer.name);
    if (fresh) continue;
    return bad_input(
        profile.model,
        fmt::format("layers '{}' and '{}' must share a stage (colocation '{}'), which this version cannot "
                    "plan",
                    group->second, layer.name, *layer.colocation),
        "merge them into one layer of the profile");
  }
  return {};
}

}  // namespace

Result<PlanAnswer> make_plan(const Profile& profile, const Cluster& given_cluster,
                             const PlanOptions& options) {
  PIPEPLAN_TRY(range, stage_range(profile, given_cluster, options));
  PIPEPLAN_CHECK(check_state(options.state));
  PIPEPLAN_CHECK(check_colocation(profile));
  PIPEPLAN_TRY(batch, choose_batch(profile, options, range.most));
  PIPEPLAN_TRY(table, make_cost_table(profile, batch.micro_batch_size, batch.micro_batch_count,
                                      options.extrapolation));
  const Cluster cluster = with_memory(given_cluster, options.memory_limit);
  Best best;
  for (std::int64_t stages = range.fewest; stages <= range.most; ++stages) {
    PIPEPLAN_CHECK(check_search(options, table.layer_count, stages));
    consider(best, options.algorithm, make_problem(table, cluster, options, batch, stages));
  }
  PlanAnswer answer;
  if (!best.problem) {
    answer.outcome = PlanOutcome::infeasible;
    answer.infeasible = *best.infeasible;
    return answer;
  }
  answer.plan = unplaced(profile, cluster, options, batch);
  place_stages(answer.plan, best.score.bounds);
  answer.plan.objective = proved(best, options.algorithm);
  PIPEPLAN_TRY(costs, pipeline_costs(answer.plan, profile, cluster, options.extrapolation));
  predict(answer.plan, costs);
  answer.warnings = plan_warnings(answer.plan, profile, *best.problem);
  return answer;
}

}  // namespace pipeplan
