#pragma once

// The times of one layer over the rounds of a measurement, and what a profile says of them.

#include <vector>

#include "profiler/profile.hpp"

namespace pipeplan {

// One layer in one round.
struct PassTimes {
  Nanoseconds forward{}, backward_input{}, backward_weight{}, optimizer{};
  [[nodiscard]] Nanoseconds backward() const { return backward_input + backward_weight; }
  [[nodiscard]] Nanoseconds whole() const { return forward + backward(); }
};

class LayerSamples {
 public:
  void add(const PassTimes& times);
  // Puts the medians, the count and the spread into `cost`, as its backward is split or not; there must be
  // samples.
  void summarize(LayerCost& cost) const;

 private:
  std::vector<Nanoseconds> forward_, backward_input_, backward_weight_, backward_, optimizer_, whole_;
};

}  // namespace pipeplan
