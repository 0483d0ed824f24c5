#pragma once

// Layers of a profile put together by hand: times in ns, every other cost 0 or unknown.

#include <string>
#include <utility>
#include <vector>

#include "profiler/profile.hpp"

namespace pipeplan::test {

inline LayerCost cost(std::int64_t size, std::int64_t forward, std::int64_t backward_input,
                      std::int64_t backward_weight) {
  LayerCost cost;
  cost.micro_batch_size = size;
  cost.forward = Nanoseconds{forward};
  cost.backward_input = Nanoseconds{backward_input};
  cost.backward_weight = Nanoseconds{backward_weight};
  return cost;
}

inline ProfiledLayer layer(const std::string& name, std::vector<LayerCost> costs) {
  ProfiledLayer layer;
  layer.name = name;
  layer.kind = "linear";
  layer.costs = std::move(costs);
  return layer;
}

}  // namespace pipeplan::test
