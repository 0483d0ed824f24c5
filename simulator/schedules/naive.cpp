#include "simulator/schedules/naive.hpp"

namespace pipeplan {

std::vector<Op> naive_order(std::int64_t ranks, std::int64_t micro_batches, RankId rank) {
  PIPEPLAN_ASSERT(micro_batches >= 1 && rank.value >= 0 && rank.value < ranks);
  const StageId stage{rank.value};
  std::vector<Op> order;
  order.reserve(static_cast<std::size_t>(2 * micro_batches));
  for (const MicrobatchId k : ids<MicrobatchId>(static_cast<std::size_t>(micro_batches))) {
    order.push_back({OpKind::forward, stage, k});
    order.push_back({OpKind::backward, stage, k});
  }
  return order;
}

}  // namespace pipeplan
