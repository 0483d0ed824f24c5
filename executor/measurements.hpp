#pragma once

// The measured iterations of a run, and the median one, which stands for them.

#include <vector>

#include "executor/engine.hpp"
#include "executor/executor.hpp"

namespace pipeplan {

class Measurements {
 public:
  void add(IterationResult result);
  // Fills iterations, load and the timeline of the median iteration; without any, nothing.
  void move_into(Execution& execution);

 private:
  std::vector<Nanoseconds> iterations_;
  LoadVerdict load_;
  std::vector<Timeline> timelines_;
};

}  // namespace pipeplan
