#pragma once

// What each rank holds over time, replayed from its ops: the constant part from the start, one micro-batch's
// activations more when F starts, as much less when X (or W) ends; with a split backward also what B leaves
// for W, from the start of the one to the end of the other. The peak depends on the order of the ops alone.

#include "planner/cost.hpp"
#include "simulator/timeline.hpp"

namespace pipeplan {

// `spans` by (start, rank), the ops of a rank in its own order. Of several stages on a rank the constant
// parts add up, but for what is reserved, which the device takes once.
PerId<RankId, RankMemory> memory_steps(const std::vector<Span>& spans, std::size_t rank_count,
                                       const PerId<StageId, StageMemory>& memory);

}  // namespace pipeplan
