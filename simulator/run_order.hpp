#pragma once

// All ops of a schedule in one order in which everything an op waits for comes before it, and the ops of each
// rank keep theirs. A forward waits for the forward of the stage before, a backward for the gradient of the
// stage behind; what an op needs of its own stage comes before it in its row. O(ops), deterministic.

#include <optional>

#include "simulator/schedule.hpp"

namespace pipeplan {

struct OpPlace {
  RankId rank;
  std::int32_t position = 0;  // in the rank's row
};

struct RunOrder {
  std::vector<OpPlace> places;
  // Per rank how many of its ops have a place: all, unless ranks wait for each other for ever.
  PerId<RankId, std::size_t> reached;
};

// Every op in range and every stage on one rank (check_schedule says so).
RunOrder run_order(const Schedule& schedule);

// On which rank each stage lives.
PerId<StageId, RankId> stage_homes(const Schedule& schedule);

// Whose output an op waits for: that of the forward, or of the op that sends the gradient.
struct StageInput {
  StageId stage;
  bool gradient = false;
};
std::optional<StageInput> stage_input(const Op& op, std::int64_t stage_count);

}  // namespace pipeplan
