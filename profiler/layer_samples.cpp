#include "profiler/layer_samples.hpp"

#include "profiler/statistics.hpp"

namespace pipeplan {

void LayerSamples::add(const PassTimes& times) {
  forward_.push_back(times.forward);
  backward_input_.push_back(times.backward_input);
  backward_weight_.push_back(times.backward_weight);
  backward_.push_back(times.backward());
  optimizer_.push_back(times.optimizer);
  whole_.push_back(times.whole());
}

void LayerSamples::summarize(LayerCost& cost) const {
  cost.forward = median(forward_);
  cost.backward_input = median(cost.backward_is_split ? backward_input_ : backward_);
  cost.backward_weight = cost.backward_is_split ? median(backward_weight_) : Nanoseconds{};
  cost.optimizer = median(optimizer_);
  cost.samples = static_cast<std::int64_t>(whole_.size());
  cost.spread_fraction = spread_fraction(whole_);
}

}  // namespace pipeplan
