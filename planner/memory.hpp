#pragma once

// Closed forms for what a schedule holds, and the memory of a stage. The simulator finds the same numbers
// from the op order alone; tests hold the two against each other.

#include "planner/cost.hpp"
#include "planner/plan.hpp"
#include "planner/ratio.hpp"

namespace pipeplan {

// Micro-batches whose activations rank r of p holds at most: naive 1, GPipe m, 1F1B min(m, p - r)
// (Huang et al. 2019; Narayanan et al. 2021).
std::int64_t in_flight(ScheduleKind schedule, std::int64_t ranks, std::int64_t micro_batches,
                       std::int64_t rank);

// Receive buffers for each direction of the boundary between ranks r and r+1: the largest lead of the sender
// over the receiver that the order of ops allows, so that a send never waits. naive 1, GPipe m, 1F1B min(m, p
// - r).
std::int64_t receive_buffers(ScheduleKind schedule, std::int64_t ranks, std::int64_t micro_batches,
                             std::int64_t rank);

// Weights, gradients and optimizer state together, as a multiple of the parameters' bytes: 1 + 1 + 0 for sgd,
// 1 + 1 + 1 for momentum, 1 + 1 + 2 for adam, 1 for none, or what the rule says outright.
Ratio state_factor(const StateRule& rule);

// Weights, gradients and optimizer state of `parameter_bytes` under a rule: the factor times the bytes,
// rounded up, goes to the weights first, then to the gradients, the rest to the state.
MemoryUse state_memory(const StateRule& rule, Bytes parameter_bytes);

// Layers [first, end) as a stage without receive buffers: the one place that says what else its memory is
// made of.
StageMemory window_memory(const CostTable& table, std::int64_t first, std::int64_t end,
                          const StateRule& state, const DeviceType& device);

// The same as stage `stage` of `stages` on as many ranks, with its buffers.
StageMemory stage_memory(const CostTable& table, std::int64_t first, std::int64_t end, std::int64_t stage,
                         std::int64_t stages, ScheduleKind schedule, std::int64_t micro_batches,
                         const StateRule& state, const DeviceType& device);

// The most a stage holds at once: the constant part and `in_flight` activations.
Bytes peak_memory(const StageMemory& memory, std::int64_t in_flight);

}  // namespace pipeplan
