#include "simulator/schedules/gpipe.hpp"

namespace pipeplan {

std::vector<Op> gpipe_order(std::int64_t ranks, std::int64_t micro_batches, RankId rank) {
  PIPEPLAN_ASSERT(micro_batches >= 1 && rank.value >= 0 && rank.value < ranks);
  const StageId stage{rank.value};
  const auto count = static_cast<std::size_t>(micro_batches);
  std::vector<Op> order;
  order.reserve(2 * count);
  for (const MicrobatchId k : ids<MicrobatchId>(count)) order.push_back({OpKind::forward, stage, k});
  for (std::size_t k = count; k-- > 0;) order.push_back({OpKind::backward, stage, id_of<MicrobatchId>(k)});
  return order;
}

}  // namespace pipeplan
