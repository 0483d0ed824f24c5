#pragma once

// Is an order of ops one that a pipeline can run? Every micro-batch passes every stage once forward and once
// back (fused, or as B and W), a stage lives on one rank, and no rank waits for ever. What an R op has
// recomputed is there until its X: no other forward of the stage comes between. O(ops), deterministic.

#include "simulator/order_demand.hpp"
#include "simulator/run_order.hpp"
#include "simulator/schedule.hpp"

namespace pipeplan {

// All faults as one error: the first, with rank and place ("rank 1, op 3 of 8, X1.0"), and how many more.
// `where` names the document ("schedule#/ranks/1/2"). A deadlock names the cycle of ops that wait for each
// other.
Result<void> check_schedule(const Schedule& schedule, const std::string& where = "schedule");

// The same, and the order in which the ops can run.
Result<RunOrder> checked_run_order(const Schedule& schedule, const std::string& where = "schedule");

// R ops only for stages that recompute, and no such stage with its backward split; `recomputing`: by stage.
Result<void> check_recomputation(const Schedule& schedule, const std::vector<bool>& recomputing,
                                 const std::string& where = "schedule");

// Whether a checked order is one for `plan`: its micro-batches, its stages on the plan's ranks, and
// check_recomputation.
Result<void> check_order_of(const Plan& plan, const Schedule& schedule,
                            const std::string& where = "schedule");

}  // namespace pipeplan
