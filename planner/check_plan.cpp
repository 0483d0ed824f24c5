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

Result<void> check_memory(const Plan& plan, const PipelineCosts& costs) {
  for (const StageId stage : ids<StageId>(plan.stages.size())) {
    const StageMemory& memory = costs.memory[stage];
    const Bytes needed = peak_memory(
        memory, in_flight(plan.schedule, plan.stage_count(), plan.micro_batch_count, stage.value));
    if (memory.limit && needed > *memory.limit)
      return fail(ErrorCode::check_failed, "plan",
                  fmt::format("stage {} needs {} bytes, but device {} has {} bytes", stage.value,
                              needed.value, plan.stages[stage].device.value, memory.limit->value));
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
