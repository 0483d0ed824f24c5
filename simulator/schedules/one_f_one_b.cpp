#include "simulator/schedules/one_f_one_b.hpp"

#include <algorithm>

namespace pipeplan {

std::vector<Op> one_f_one_b_order(std::int64_t ranks, std::int64_t micro_batches, RankId rank) {
  PIPEPLAN_ASSERT(micro_batches >= 1 && rank.value >= 0 && rank.value < ranks);
  const StageId stage{rank.value};
  const auto count = static_cast<std::size_t>(micro_batches);
  const std::size_t warm_up = std::min(count, static_cast<std::size_t>(ranks - 1 - rank.value));
  std::vector<Op> order;
  order.reserve(2 * count);
  const auto forward = [&](std::size_t k) {
    order.push_back({OpKind::forward, stage, id_of<MicrobatchId>(k)});
  };
  const auto backward = [&](std::size_t k) {
    order.push_back({OpKind::backward, stage, id_of<MicrobatchId>(k)});
  };

  for (std::size_t k = 0; k < warm_up; ++k) forward(k);
  for (std::size_t k = 0; k < count - warm_up; ++k) {
    forward(warm_up + k);
    backward(k);
  }
  for (std::size_t k = count - warm_up; k < count; ++k) backward(k);
  return order;
}

}  // namespace pipeplan
