#include "planner/memory.hpp"

#include <algorithm>

#include "models/base/assert.hpp"

namespace pipeplan {
namespace {

std::int64_t between(const std::vector<std::int64_t>& sums, std::int64_t first, std::int64_t end) {
  return sums[static_cast<std::size_t>(end)] - sums[static_cast<std::size_t>(first)];
}

}  // namespace

std::int64_t in_flight(ScheduleKind schedule, std::int64_t ranks, std::int64_t micro_batches,
                       std::int64_t rank) {
  PIPEPLAN_ASSERT(0 <= rank && rank < ranks && micro_batches >= 1);
  switch (schedule) {
    case ScheduleKind::naive: return 1;
    case ScheduleKind::gpipe: return micro_batches;
    case ScheduleKind::one_f_one_b: return std::min(micro_batches, ranks - rank);
  }
  PIPEPLAN_UNREACHABLE("a schedule without a closed form");
}

std::int64_t receive_buffers(ScheduleKind schedule, std::int64_t ranks, std::int64_t micro_batches,
                             std::int64_t rank) {
  PIPEPLAN_ASSERT(rank + 1 < ranks);
  return in_flight(schedule, ranks, micro_batches, rank);
}

Ratio state_factor(const StateRule& rule) {
  if (rule.total_factor) return Ratio(*rule.total_factor);
  switch (rule.optimizer) {
    case OptimizerRule::none: return Ratio(1);
    case OptimizerRule::sgd: return Ratio(1 + 1);
    case OptimizerRule::momentum: return Ratio(1 + 1 + 1);
    case OptimizerRule::adam: return Ratio(1 + 1 + 2);
  }
  PIPEPLAN_UNREACHABLE("an optimizer without a rule");
}

MemoryUse state_memory(const StateRule& rule, Bytes parameter_bytes) {
  Bytes left{state_factor(rule).multiply_up(parameter_bytes.value)};
  MemoryUse use;
  use[MemoryItem::weights] = std::min(parameter_bytes, left);
  left -= use[MemoryItem::weights];
  use[MemoryItem::gradients] = std::min(parameter_bytes, left);
  left -= use[MemoryItem::gradients];
  use[MemoryItem::optimizer_state] = left;
  return use;
}

StageMemory window_memory(const CostTable& table, std::int64_t first, std::int64_t end,
                          const StateRule& state, const DeviceType& device) {
  PIPEPLAN_ASSERT(0 <= first && first < end && end <= table.layer_count);
  StageMemory memory;
  memory.constant = state_memory(state, Bytes{between(table.parameter, first, end)});
  memory.constant[MemoryItem::activations].value = between(table.rerun_activation, first, end);
  memory.constant[MemoryItem::workspace].value =
      *std::max_element(table.workspace.begin() + first, table.workspace.begin() + end);
  memory.constant[MemoryItem::reserved] = device.reserved;
  memory.activation_per_micro_batch.value =
      between(table.activation, first, end) + table.entering[static_cast<std::size_t>(first)];
  memory.deferred_per_micro_batch.value = between(table.deferred, first, end);
  memory.limit = device.memory;
  return memory;
}

StageMemory stage_memory(const CostTable& table, std::int64_t first, std::int64_t end, std::int64_t stage,
                         std::int64_t stages, ScheduleKind schedule, std::int64_t micro_batches,
                         const StateRule& state, const DeviceType& device) {
  const auto buffers = [&](std::int64_t boundary, std::int64_t cut) {
    if (boundary < 0 || boundary + 1 == stages) return Bytes{};
    return Bytes{receive_buffers(schedule, stages, micro_batches, boundary) *
                 table.cut_bytes[static_cast<std::size_t>(cut)]};
  };
  StageMemory memory = window_memory(table, first, end, state, device);
  memory.constant[MemoryItem::communication] = buffers(stage - 1, first) + buffers(stage, end);
  return memory;
}

Bytes peak_memory(const StageMemory& memory, std::int64_t in_flight) {
  return memory.constant.total() + memory.activation_per_micro_batch * in_flight;
}

}  // namespace pipeplan
