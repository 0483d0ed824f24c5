#pragma once

// How much longer layers take on a part of a GPU while the other parts do nothing but copy memory: parts have
// SMs of their own but share cache and memory bandwidth. The worst that neighbours can do, not the usual.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "models/layers/gpu_queue.hpp"
#include "models/model_graph.hpp"

namespace pipeplan {

struct Interference {
  std::int64_t micro_batch_size = 1;
  double factor = 1;  // of all layers together, forward and backward: disturbed / alone
  std::string worst_layer;
  double worst_factor = 1;
};

// In a profile's source.settings, where it was measured: the factor.
inline constexpr auto interference_setting = "interference_factor";

// Runs `model` on the first of at least two queues while the others copy.
Result<Interference> probe_interference(const ModelGraph& model, std::int64_t micro_batch_size,
                                        std::span<const std::unique_ptr<GpuQueue>> queues);

}  // namespace pipeplan
