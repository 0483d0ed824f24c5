#pragma once

// The longest-path engine: on every rank the order of ops is fixed, and so is the order of transfers on a
// link, so each op starts as soon as its rank is free and its inputs are there. One pass, O(ops),
// bit-reproducible.

#include "planner/cost.hpp"
#include "simulator/schedule.hpp"
#include "simulator/timeline.hpp"

namespace pipeplan {

// One iteration of `schedule`, which must pass check_schedule (a fault is returned as its error) and have the
// stages of `costs`. Several stages may share a rank; nothing is sent between them. Refused: sums beyond
// largest_total_time.
Result<Timeline> simulate(const Schedule& schedule, const PipelineCosts& costs);
// The same for a plan under a profile, on a cluster (the plan's own or another).
Result<Timeline> simulate(const Schedule& schedule, const Plan& plan, const Profile& profile,
                          const Cluster& cluster);

// How long `kind` takes on a stage.
Nanoseconds op_time(OpKind kind, const StageTimes& times);

// When the micro-batch that is sent over `boundary` at `ready` arrives, given when the link is free again
// (updated). ignored: at once; uncontended: latency + bytes / bandwidth; overlapped: waits for the link,
// which is then busy for bytes / bandwidth. Returns start and end.
struct Passage {
  Nanoseconds start{}, end{};
};
Passage pass_link(TransferMode mode, const BoundaryCosts& boundary, Nanoseconds ready,
                  Nanoseconds& link_free);

}  // namespace pipeplan
