#pragma once

// A kernel that notes on which SMs it runs. Read by device compilers too.

#include <cuda_runtime.h>

#include <cstddef>

namespace pipeplan {

// Above the numbers that the SMs of any GPU have.
inline constexpr std::size_t most_sm_numbers = 1024;

// Sets marks[n] for every SM n that a block lands on. Enough blocks, each long enough in its place, that no
// free SM stays empty.
void launch_mark_sms(cudaStream_t stream, int device_sm_count, unsigned char* marks);

}  // namespace pipeplan
