#include "models/layers/cuda/idle.hpp"

#include "models/layers/cuda/clock.cuh"

namespace pipeplan {
namespace {

__global__ void idle_kernel(std::int64_t duration_ns) { sleep_ns(duration_ns); }

}  // namespace

void launch_idle(cudaStream_t stream, std::int64_t duration_ns) {
  idle_kernel<<<1, 1, 0, stream>>>(duration_ns);
}

}  // namespace pipeplan
