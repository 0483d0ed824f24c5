#include "executor/measurements.hpp"

#include <algorithm>

namespace pipeplan {

void Measurements::add(IterationResult result) {
  iterations_.push_back(result.timeline.iteration);
  load_.wall += result.load.wall;
  load_.cpu += result.load.cpu;
  timelines_.push_back(std::move(result.timeline));
}

void Measurements::move_into(Execution& execution) {
  execution.iterations = std::move(iterations_);
  execution.load = load_;
  if (timelines_.empty()) return;
  const auto middle = timelines_.begin() + static_cast<std::ptrdiff_t>((timelines_.size() - 1) / 2);
  std::ranges::nth_element(timelines_, middle, {}, &Timeline::iteration);
  execution.timeline = std::move(*middle);
}

}  // namespace pipeplan
