#pragma once

// How much the order of ops alone makes ranks and links hold, whatever the times are.

#include <vector>

#include "simulator/schedule.hpp"

namespace pipeplan {

struct OrderDemand {
  PerId<RankId, std::int64_t> peak_in_flight;  // +1 when F starts, -1 when X (or W) ends
  // Per boundary and direction the largest lead of the sender over the receiver: how many sent micro-batches
  // can wait. When a sender starts an op, the receiver has surely started all that stands before the ops
  // whose results the sender has had; the rest of what was sent may still wait.
  std::vector<std::int64_t> forward_lead, backward_lead;
};

// The schedule must have passed check_schedule.
OrderDemand order_demand(const Schedule& schedule);

}  // namespace pipeplan
