#pragma once

// Naive model parallelism: one micro-batch after the other goes forward and back through all ranks.

#include "simulator/schedule.hpp"

namespace pipeplan {

std::vector<Op> naive_order(std::int64_t ranks, std::int64_t micro_batches, RankId rank);

}  // namespace pipeplan
