#pragma once

// 1F1B (PipeDream-Flush, Narayanan et al. 2021): rank r of p warms up with min(m, p-1-r) forwards, then
// alternates one forward and one backward, then drains. Any m >= 1.

#include "simulator/schedule.hpp"

namespace pipeplan {

std::vector<Op> one_f_one_b_order(std::int64_t ranks, std::int64_t micro_batches, RankId rank);

}  // namespace pipeplan
