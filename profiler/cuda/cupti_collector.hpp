#pragma once

// Collects kernels, copies and memory events of this process by CUPTI. Kernels run as concurrently as without
// it; each launch carries its layer and pass as an external correlation id. One collector at a time: CUPTI
// has one subscriber.

#include <memory>

#include "profiler/gpu/gpu_backend.hpp"

namespace pipeplan {

// Unavailable where CUPTI is missing, of another major version, refused, or taken by another tool. Makes no
// CUDA context. The trace that stop() returns knows neither device nor micro-batch size: they are the
// caller's to fill in.
Result<std::unique_ptr<GpuCollector>> make_cupti_collector();

}  // namespace pipeplan
