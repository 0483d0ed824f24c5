#pragma once

// The order in which a pipeline's ops run: the plan's named schedule, or a schedule document (--order), with
// the costs that hold under it.

#include <string>

#include "planner/cost.hpp"
#include "simulator/schedule.hpp"

namespace pipeplan {

struct OrderedPipeline {
  Schedule schedule;
  PipelineCosts costs;
};

Result<OrderedPipeline> named_order(const Plan& plan, const PipelineCosts& costs);
// A document whose stages must be as many as the costs have; receive buffers are those that it needs.
Result<OrderedPipeline> order_from_file(const std::string& path, const PipelineCosts& costs);
// The named order if `path` is empty, else the document, which must also be one for `plan`.
Result<OrderedPipeline> plan_order(const std::string& path, const Plan& plan, const PipelineCosts& costs);

}  // namespace pipeplan
