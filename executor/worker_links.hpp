#pragma once

// Links as one worker sends over them, on any clock. All parts of an op's result pass as one tensor and are
// there together, as the costs of a boundary have it: the port of the side with fewer replicas carries the
// bytes of all. Between stages of one worker nothing passes.

#include <optional>
#include <vector>

#include "executor/program.hpp"
#include "simulator/simulate.hpp"

namespace pipeplan {

class WorkerLinks {
 public:
  // `costs` outlive the links.
  WorkerLinks(WorkerId worker, const PipelineCosts& costs);

  void restart();
  // When a part that is ready then leaves and arrives; sends in the worker's order.
  Passage pass(const Command& send, Nanoseconds ready);

 private:
  WorkerId worker_;
  const PipelineCosts& costs_;
  std::vector<Nanoseconds> forward_free_, backward_free_;  // by boundary
  std::optional<Op> last_;                                 // whose passage this is
  Passage passage_;
};

}  // namespace pipeplan
