#pragma once

// The longest-path engine: on every rank the order of ops is fixed, and so is the order of transfers on a
// link, so each op starts as soon as its rank is free and its inputs are there. One pass, O(ops),
// bit-reproducible.

#include "planner/cost.hpp"
#include "simulator/schedule.hpp"
#include "simulator/timeline.hpp"

namespace pipeplan {

// One iteration of `schedule`, which must pass check_schedule (a fault is returned as its error) and have the
// stages of `costs`. Several stages may share a rank; nothing is sent between them. After the last op of a
// rank come the all-reduces and then the optimizer steps of its stages. Refused: sums beyond
// largest_total_time, and what check_recomputation refuses.
Result<Timeline> simulate(const Schedule& schedule, const PipelineCosts& costs);
// The same for a plan under a profile, on a cluster (the plan's own or another), with the receive buffers
// that the order needs.
Result<Timeline> simulate(const Schedule& schedule, const Plan& plan, const Profile& profile,
                          const Cluster& cluster);

// How long `kind` takes on a stage; `recomputed_apart`: an X or B whose forward an R op has run again.
Nanoseconds op_time(OpKind kind, const StageTimes& times, bool recomputed_apart = false);

// Whether any layer of a stage is recomputed, as far as that takes time or memory.
bool recomputes(const PipelineCosts& costs, StageId stage);

// When the micro-batch that is sent over `boundary` at `ready` arrives, given when the link is free again
// (updated). ignored: at once; uncontended: latency + bytes / bandwidth; overlapped: waits for the link,
// which is then busy for bytes / bandwidth. Returns start and end.
struct Passage {
  Nanoseconds start{}, end{};
};
Passage pass_link(TransferMode mode, const BoundaryCosts& boundary, Nanoseconds ready,
                  Nanoseconds& link_free);

}  // namespace pipeplan
