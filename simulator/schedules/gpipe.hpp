#pragma once

// GPipe (Huang et al. 2019): all forwards, then all backwards, the last micro-batch first.

#include "simulator/schedule.hpp"

namespace pipeplan {

std::vector<Op> gpipe_order(std::int64_t ranks, std::int64_t micro_batches, RankId rank);

}  // namespace pipeplan
