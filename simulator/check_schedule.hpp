#pragma once

// Is an order of ops one that a pipeline can run? Every micro-batch passes every stage once forward and once
// back (fused, or as B and W), a stage lives on one rank, and no rank waits for ever. O(ops), deterministic.

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

}  // namespace pipeplan
