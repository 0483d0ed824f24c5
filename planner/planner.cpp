#include "planner/planner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "models/base/assert.hpp"
#include "planner/batch.hpp"
#include "planner/brute_force.hpp"
#include "planner/chain_dp.hpp"
#include "planner/even_split.hpp"
#include "planner/infeasible.hpp"
#include "planner/memory.hpp"
#include "planner/placement.hpp"
#include "planner/plan_warnings.hpp"

namespace pipeplan {
namespace {

struct StageRange {
  std::int64_t fewest, most;
};

Result<StageRange> stage_range(const Profile& profile, const Cluster& cluster, const PlanOptions& options) {
  if (options.data_parallel < 1)
    return bad_usage(fmt::format("{} copies asked for, wanted at least 1", options.data_parallel));
  const auto layers = static_cast<std::int64_t>(profile.layers.size());
  if (layers == 0) return bad_input(profile.model, "has 0 layers, wanted at least 1");
  const std::int64_t devices = cluster.device_count() / options.data_parallel;  // of each copy
  const std::int64_t natural = std::max<std::int64_t>(1, std::min(layers, devices));
  const bool open = !options.fewest_stages && !options.most_stages;
  const StageRange range{options.fewest_stages.value_or(open ? natural : 1),
                         options.most_stages.value_or(natural)};
  if (range.fewest < 1) return bad_usage(fmt::format("{} stages asked for, wanted at least 1", range.fewest));
  if (range.fewest > layers || range.most > layers)
    return bad_usage(fmt::format("{} stages asked for, but '{}' has {} layers",
                                 std::max(range.fewest, range.most), profile.model, layers));
  if (range.fewest > devices || range.most > devices)
    return bad_usage(fmt::format(
        "{} stages{} asked for, but cluster '{}' has {} devices", std::max(range.fewest, range.most),
        options.data_parallel == 1 ? "" : fmt::format(" in {} copies", options.data_parallel), cluster.name,
        cluster.device_count()));
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

// Copy c of stage s runs on device c * stages + s.
std::vector<DeviceId> stage_devices(std::int64_t stages, std::int64_t stage, std::int64_t copies) {
  std::vector<DeviceId> devices;
  for (std::int64_t copy = 0; copy < copies; ++copy)
    devices.push_back(id_of<DeviceId>(static_cast<std::size_t>(copy * stages + stage)));
  return devices;
}

StagePlan placed_stage(std::int64_t stages, std::size_t stage, std::int64_t copies) {
  StagePlan placed;
  placed.rank = id_of<RankId>(stage);
  placed.devices = stage_devices(stages, placed.rank.value, copies);
  return placed;
}

SplitProblem make_problem(const CostTable& table, const Cluster& cluster, const PlanOptions& options,
                          const Batch& batch, std::int64_t stages) {
  SplitProblem problem{
      &table, stages, batch.micro_batch_count, options.schedule, options.transfers, options.state, {}, {}};
  StagePlan before;
  for (std::size_t i = 0; i < static_cast<std::size_t>(stages); ++i) {
    StagePlan stage = placed_stage(stages, i, options.data_parallel);
    problem.devices.push_back(common_device(cluster, stage.devices));
    if (i > 0) problem.links.push_back(boundary_link(cluster, before, stage));
    before = std::move(stage);
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

void place_stages(Plan& plan, const std::vector<std::int64_t>& bounds, const std::vector<bool>& recomputed) {
  const auto stages = static_cast<std::int64_t>(bounds.size()) - 1;
  for (std::size_t i = 0; i + 1 < bounds.size(); ++i) {
    StagePlan stage = placed_stage(stages, i, plan.data_parallel);
    stage.first = id_of<LayerId>(static_cast<std::size_t>(bounds[i]));
    stage.last = id_of<LayerId>(static_cast<std::size_t>(bounds[i + 1] - 1));
    for (LayerId layer = stage.first; layer <= stage.last; layer = layer.next())
      if (recomputed[layer.index()]) stage.recompute.push_back(layer);
    plan.stages.push_back(std::move(stage));
  }
}

std::vector<bool> recomputed_layers(const Profile& profile, Recomputation wanted) {
  std::vector<bool> recomputed;
  for (const ProfiledLayer& layer : profile.layers)
    recomputed.push_back(wanted == Recomputation::all && layer.recomputable);
  return recomputed;
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
  plan.data_parallel = options.data_parallel;
  plan.recompute_mode = options.recompute_mode;
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
  const std::vector<bool> recomputed = recomputed_layers(profile, options.recompute);
  PIPEPLAN_TRY(table, make_cost_table(profile, batch.micro_batch_size, batch.micro_batch_count,
                                      options.extrapolation, recomputed));
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
  place_stages(answer.plan, best.score.bounds, recomputed);
  answer.plan.objective = proved(best, options.algorithm);
  PIPEPLAN_TRY(costs, pipeline_costs(answer.plan, profile, cluster, options.extrapolation));
  predict(answer.plan, costs);
  answer.warnings = plan_warnings(answer.plan, profile, *best.problem);
  return answer;
}

}  // namespace pipeplan
