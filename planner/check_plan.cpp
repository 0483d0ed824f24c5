// Holds a plan against the profile at hand: stale plans and plans that do not fit are common accidents.

#include <fmt/format.h>

#include "planner/cost.hpp"
#include "planner/memory.hpp"
#include "planner/plan.hpp"

namespace pipeplan {
namespace {

Result<void> check_digest(const Plan& plan, const Profile& profile) {
  const std::string seen = profile_digest(profile);
  if (plan.profile_digest == seen) return {};
  return bad_input("plan",
                   fmt::format("was made for the profile {}, but the profile of '{}' at hand is {}",
                               plan.profile_digest, profile.model, seen),
                   "make the plan again, or use --force to go on with this one");
}

// The most micro-batches that a stage holds; where a rank has several stages that depends on an order which
// the plan does not say, but one of each is the least.
std::int64_t held(const Plan& plan, StageId stage) {
  if (plan.virtual_stages() > 1) return 1;
  return in_flight(plan.schedule, plan.stage_count(), plan.micro_batch_count, stage.value);
}

// What the stages of a rank need beside what its device reserves once.
Bytes needed_beside_reserved(const Plan& plan, const PipelineCosts& costs, RankId rank) {
  Bytes needed;
  for (const StageId stage : ids<StageId>(plan.stages.size())) {
    if (plan.stages[stage].rank != rank) continue;
    const StageMemory& memory = costs.memory[stage];
    needed += peak_memory(memory, held(plan, stage)) - memory.constant[MemoryItem::reserved];
  }
  return needed;
}

Result<void> check_memory(const Plan& plan, const PipelineCosts& costs) {
  for (const StageId stage : ids<StageId>(plan.stages.size())) {
    const StageMemory& memory = costs.memory[stage];
    const RankId rank = plan.stages[stage].rank;
    const Bytes needed = needed_beside_reserved(plan, costs, rank) + memory.constant[MemoryItem::reserved];
    if (!memory.limit || needed <= *memory.limit) continue;
    return fail(ErrorCode::check_failed, "plan",
                plan.virtual_stages() == 1
                    ? fmt::format("stage {} needs {} bytes, but device {} has {} bytes", stage.value,
                                  needed.value, plan.stages[stage].device().value, memory.limit->value)
                    : fmt::format("rank {} needs at least {} bytes, but device {} has {} bytes", rank.value,
                                  needed.value, plan.stages[stage].device().value, memory.limit->value));
  }
  return {};
}

Result<void> check_value(const Plan& plan, const PipelineCosts& costs) {
  const Nanoseconds value = slowest_stage(costs);
  if (value == plan.objective.value) return {};
  return fail(ErrorCode::check_failed, "plan#/objective/value_ns",
              fmt::format("is {} ns, but under this profile the slowest stage takes {} ns",
                          plan.objective.value.count(), value.count()));
}

}  // namespace

Result<void> check_plan_against(const Plan& plan, const Profile& profile, StaleProfile stale,
                                Extrapolation extrapolation) {
  if (stale == StaleProfile::refused) PIPEPLAN_CHECK(check_digest(plan, profile));
  PIPEPLAN_TRY(costs, pipeline_costs(plan, profile, plan.cluster, extrapolation));
  PIPEPLAN_CHECK(check_memory(plan, costs));
  if (stale == StaleProfile::refused) PIPEPLAN_CHECK(check_value(plan, costs));
  return {};
}

}  // namespace pipeplan
