#pragma once

// How much the order of ops alone makes ranks and links hold, whatever the times are.

#include <vector>

#include "planner/cost.hpp"
#include "simulator/schedule.hpp"

namespace pipeplan {

struct OrderDemand {
  PerId<RankId, std::int64_t> peak_in_flight;  // +1 when F starts, -1 when X (or W) ends
  // Of a stage alone: the same, and the most micro-batches between the start of B and the end of W.
  PerId<StageId, std::int64_t> stage_peak, stage_split_peak;
  // Per boundary and direction the largest lead of the sender over the receiver: how many sent micro-batches
  // can wait. When a sender starts an op, the receiver has surely started all that stands before the ops
  // whose results the sender has had; the rest of what was sent may still wait.
  std::vector<std::int64_t> forward_lead, backward_lead;
};

// The schedule must have passed check_schedule.
OrderDemand order_demand(const Schedule& schedule);

// `costs` with the receive buffers that an order needs in place of those of the plan's named schedule.
PipelineCosts fit_to_order(PipelineCosts costs, const OrderDemand& demand);

}  // namespace pipeplan
