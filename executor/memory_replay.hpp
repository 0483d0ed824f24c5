#pragma once

// What a worker would hold, replayed from the costs of its stages as its ops pass by: for devices that have
// no memory of their own.

#include <vector>

#include "planner/cost.hpp"
#include "simulator/timeline.hpp"

namespace pipeplan {

class MemoryReplay {
 public:
  // `memory` outlives the replay; `stages` are the worker's.
  MemoryReplay(const PerId<StageId, StageMemory>& memory, const std::vector<StageId>& stages);

  void restart();
  // Ops in the worker's order.
  void pass(const Op& op, Nanoseconds start, Nanoseconds end);
  [[nodiscard]] const RankMemory& seen() const { return seen_; }

 private:
  void change(Nanoseconds at, Bytes bytes, std::int64_t micro_batches);
  void note(Nanoseconds at);

  const PerId<StageId, StageMemory>& memory_;
  MemoryUse constant_, now_;
  std::int64_t in_flight_ = 0;
  RankMemory seen_;
};

}  // namespace pipeplan
