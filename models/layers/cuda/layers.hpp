#pragma once

// Runnable layers on a GPU: the contract of models/layers/layer.hpp with device pointers, each call enqueued
// on the stream of a CudaWork. Parameters lie as the CPU's do, and initialize() fills them on the host;
// stash, deferred and scratch may be of other sizes.

#include <memory>
#include <string>

#include "models/layers/cuda/cuda_work.hpp"
#include "models/layers/layer.hpp"

namespace pipeplan {

// `work` must outlive the layer. Refuses what make_layer refuses.
Result<std::unique_ptr<RunnableLayer<float>>> make_cuda_layer(const LayerSpec& spec, const std::string& where,
                                                              CudaWork& work);

}  // namespace pipeplan
