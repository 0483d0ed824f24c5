#include "models/layers/cuda/attention_body.hpp"
#include "models/layers/cuda/kernels.hpp"
#include "models/layers/cuda/launch.cuh"

namespace pipeplan {
namespace {

HeadLayout layout(const HeadShape& shape) {
  return {shape.rows, shape.length, static_cast<std::int32_t>(shape.width),
          static_cast<std::int32_t>(shape.head_width)};
}

std::int64_t columns(const HeadShape& shape) { return shape.parts * shape.width; }

}  // namespace

void launch_split_heads(cudaStream_t stream, const HeadShape& shape, const float* joined, float* split) {
  launch_rows(shape.rows, columns(shape), SplitHeadsRow{layout(shape), columns(shape), joined, split},
              stream);
}

void launch_join_heads(cudaStream_t stream, const HeadShape& shape, const float* split, float* joined) {
  launch_rows(shape.rows, columns(shape), JoinHeadsRow{layout(shape), columns(shape), split, joined}, stream);
}

void launch_causal_softmax(cudaStream_t stream, std::int64_t matrix_count, std::int64_t length, float scale,
                           float* scores) {
  launch_rows(matrix_count * length, length, CausalSoftmaxRow{scores, scale, length}, stream);
}

void launch_causal_softmax_backward(cudaStream_t stream, std::int64_t matrix_count, std::int64_t length,
                                    float scale, const float* probabilities, float* gradients) {
  const CausalSoftmaxBackwardRow body{probabilities, gradients, scale, length};
  launch_rows(matrix_count * length, length, body, stream);
}

}  // namespace pipeplan
