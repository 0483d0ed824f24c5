#include "models/layers/cuda/kernels.hpp"
#include "models/layers/cuda/launch.cuh"
#include "models/layers/cuda/vector_body.hpp"

namespace pipeplan {
namespace {

// A block takes as many neighbouring columns as it has lanes per column: thread (x, y) is lane y of column x.
template<class Value>
__global__ void __launch_bounds__(warp_lanes* column_lanes)
    add_column_sums(Value value, float* sums, std::int64_t rows, std::int64_t columns) {
  __shared__ float lanes[column_lanes][warp_lanes];
  const int lane = static_cast<int>(threadIdx.y);
  for (std::int64_t first = blockIdx.x * std::int64_t{warp_lanes}; first < columns;
       first += gridDim.x * std::int64_t{warp_lanes}) {
    const std::int64_t column = first + threadIdx.x;
    if (column < columns) lanes[lane][threadIdx.x] = lane_sum(value, rows, columns, column, lane);
    __syncthreads();
    if (lane == 0 && column < columns) sums[column] += sum_of_lanes(&lanes[0][threadIdx.x], warp_lanes);
    __syncthreads();  // the sums are read before the next turn writes them
  }
}

template<class Value>
void launch_column_sums(Value value, float* sums, std::int64_t rows, std::int64_t columns,
                        cudaStream_t stream) {
  const dim3 threads(warp_lanes, column_lanes);
  const unsigned blocks = block_count((columns + warp_lanes - 1) / warp_lanes);
  if (columns > 0) add_column_sums<<<blocks, threads, 0, stream>>>(value, sums, rows, columns);
}

}  // namespace

void launch_fill(cudaStream_t stream, std::int64_t count, float value, float* place) {
  launch_elements(count, Fill{place, value}, stream);
}

void launch_add(cudaStream_t stream, std::int64_t count, const float* from, float* to) {
  launch_elements(count, Add{from, to}, stream);
}

void launch_sgd(cudaStream_t stream, SgdUpdate update, std::int64_t count, float* parameters,
                float* gradients) {
  launch_elements(count, SgdStep{update, parameters, gradients}, stream);
}

void launch_momentum(cudaStream_t stream, MomentumUpdate update, std::int64_t count, float* parameters,
                     float* gradients, float* velocities) {
  launch_elements(count, MomentumStep{update, parameters, gradients, velocities}, stream);
}

void launch_adam(cudaStream_t stream, AdamUpdate update, std::int64_t count, float* parameters,
                 float* gradients, float* state) {
  launch_elements(count, AdamStep{update, parameters, gradients, state, state + count}, stream);
}

void launch_repeat_row(cudaStream_t stream, std::int64_t rows, std::int64_t columns, const float* row,
                       float* matrix) {
  launch_rows(rows, columns, RepeatRow{row, matrix, columns}, stream);
}

void launch_add_column_sums(cudaStream_t stream, std::int64_t rows, std::int64_t columns, const float* matrix,
                            float* sums) {
  launch_column_sums(Entry{matrix}, sums, rows, columns, stream);
}

void launch_add_column_dots(cudaStream_t stream, std::int64_t rows, std::int64_t columns, const float* left,
                            const float* right, float* sums) {
  launch_column_sums(EntryProduct{left, right}, sums, rows, columns, stream);
}

}  // namespace pipeplan
