#pragma once

// A kernel that does nothing for a given time: one thread that looks at the GPU's clock. Read by device
// compilers too.

#include <cuda_runtime.h>

#include <cstdint>

namespace pipeplan {

void launch_idle(cudaStream_t stream, std::int64_t duration_ns);

}  // namespace pipeplan
