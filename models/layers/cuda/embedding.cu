#include "models/layers/cuda/embedding_body.hpp"
#include "models/layers/cuda/kernels.hpp"
#include "models/layers/cuda/launch.cuh"

namespace pipeplan {

void launch_embedding(cudaStream_t stream, const EmbeddingShape& shape, const float* ids, const float* tokens,
                      const float* positions, float* output) {
  const EmbeddingRow body{ids,        tokens, positions, output, shape.rows_per_sample, shape.vocabulary,
                          shape.width};
  launch_rows(shape.rows, shape.width, body, stream);
}

void launch_embedding_backward(cudaStream_t stream, const EmbeddingShape& shape, const float* ids,
                               const float* grad_output, float* grad_tokens, float* grad_positions) {
  // The rows that a block looks through are more than the columns that it adds.
  const TokenGradientRow body{ids, grad_output, grad_tokens, shape.rows, shape.vocabulary, shape.width};
  launch_rows(shape.rows, shape.rows, body, stream);
  const std::int64_t sample_width = shape.rows_per_sample * shape.width;
  const std::int64_t sample_count = shape.rows / shape.rows_per_sample;
  launch_elements(sample_width, PositionGradient{grad_output, grad_positions, sample_count, sample_width},
                  stream);
}

}  // namespace pipeplan
