#pragma once

// How bodies (kernel_body.hpp) run on the GPU: elements one per thread, rows one per block. Sums join lanes
// of a warp in a butterfly, then the warps in the order of their numbers, so that equal sizes give equal
// bits.

#include <cuda_runtime.h>

#include "models/layers/cuda/kernel_body.hpp"

namespace pipeplan {

constexpr int warp_lanes = 32;
constexpr int largest_block = 1024;

// A block's threads, a whole number of warps.
class BlockTeam {
 public:
  __device__ BlockTeam(double* warp_values, bool* flags) : warp_values_(warp_values), flags_(flags) {}

  __device__ std::int64_t rank() const { return threadIdx.x; }
  __device__ std::int64_t size() const { return blockDim.x; }
  template<class T>
  __device__ T sum(T value) {
    return joined(value, [](T a, T b) { return a + b; });
  }
  __device__ float largest(float value) {
    return joined(value, [](float a, float b) { return fmaxf(a, b); });
  }
  __device__ bool any(bool flag) { return __syncthreads_or(flag) != 0; }
  __device__ bool* flags() { return flags_; }
  __device__ void barrier() { __syncthreads(); }

 private:
  // `join` gives the same bits either way round, so every lane of a warp ends with the same.
  template<class T, class Join>
  __device__ T joined(T value, Join join) {
    for (int distance = warp_lanes / 2; distance > 0; distance /= 2)
      value = join(value, __shfl_xor_sync(0xffffffffU, value, distance));
    if (threadIdx.x % warp_lanes == 0) warp_values_[threadIdx.x / warp_lanes] = value;
    __syncthreads();
    T all = static_cast<T>(warp_values_[0]);
    for (unsigned warp = 1; warp < blockDim.x / warp_lanes; ++warp)
      all = join(all, static_cast<T>(warp_values_[warp]));
    __syncthreads();  // all have read before the next call writes
    return all;
  }

  double* warp_values_;
  bool* flags_;
};

template<class Body>
__global__ void per_element(std::int64_t count, Body body) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += step)
    body(i);
}

template<class Body>
__global__ void __launch_bounds__(largest_block) per_row(std::int64_t rows, Body body) {
  __shared__ double warp_values[largest_block / warp_lanes];
  __shared__ bool flags[largest_block];
  BlockTeam team(warp_values, flags);
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) body(team, row);
}

// At most 2^20 blocks; each takes several turns if there is more to do.
inline unsigned block_count(std::int64_t wanted) {
  constexpr std::int64_t most = 1 << 20;
  return static_cast<unsigned>(wanted < most ? wanted : most);
}

template<class Body>
void launch_elements(std::int64_t count, Body body, cudaStream_t stream) {
  constexpr int threads = 256;
  if (count > 0)
    per_element<<<block_count((count + threads - 1) / threads), threads, 0, stream>>>(count, body);
}

// `width` scalars per row decide the size of a block: about four for each thread.
template<class Body>
void launch_rows(std::int64_t rows, std::int64_t width, Body body, cudaStream_t stream) {
  unsigned threads = warp_lanes;
  while (threads < largest_block && 4 * std::int64_t{threads} < width) threads *= 2;
  if (rows > 0) per_row<<<block_count(rows), threads, 0, stream>>>(rows, body);
}

}  // namespace pipeplan
