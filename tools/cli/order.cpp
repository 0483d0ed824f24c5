#include "tools/cli/order.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "simulator/check_schedule.hpp"
#include "simulator/order_demand.hpp"

namespace pipeplan {

Result<OrderedPipeline> named_order(const Plan& plan, const PipelineCosts& costs) {
  PIPEPLAN_TRY(schedule, make_schedule(plan));
  return OrderedPipeline{schedule, costs};
}

Result<OrderedPipeline> order_from_file(const std::string& path, const PipelineCosts& costs) {
  const std::string source = source_name(path);
  PIPEPLAN_TRY(json, read_json_file(path));
  PIPEPLAN_TRY(schedule, schedule_from_json(json, source));
  const auto stages = static_cast<std::int64_t>(costs.times.size());
  if (schedule.stage_count != stages)
    return bad_input(source,
                     fmt::format("has {} stages, wanted {} as the costs have", schedule.stage_count, stages));
  PIPEPLAN_CHECK(check_schedule(schedule, source));
  return OrderedPipeline{schedule, fit_to_order(costs, order_demand(schedule))};
}

Result<OrderedPipeline> plan_order(const std::string& path, const Plan& plan, const PipelineCosts& costs) {
  if (path.empty()) return named_order(plan, costs);
  PIPEPLAN_TRY(ordered, order_from_file(path, costs));
  PIPEPLAN_CHECK(check_order_of(plan, ordered.schedule, source_name(path)));
  return ordered;
}

}  // namespace pipeplan
