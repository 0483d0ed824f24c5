#pragma once

// The kernels, each as a function that enqueues it on a stream: plain arguments, device memory, nothing
// waits. After each call the launch is to be checked (CudaWork::check_launch). A count of 0 enqueues nothing.
// All are deterministic: no atomics, and every sum in an order that the sizes alone fix. Read by device
// compilers too.

#include <cuda_runtime.h>

#include <cstdint>

#include "models/layers/arithmetic.hpp"

namespace pipeplan {

// Vectors.
void launch_fill(cudaStream_t stream, std::int64_t count, float value, float* place);
void launch_add(cudaStream_t stream, std::int64_t count, const float* from, float* to);  // to += from

// Optimizer steps, as optimizer_step: the gradients are 0 afterwards.
void launch_sgd(cudaStream_t stream, SgdUpdate update, std::int64_t count, float* parameters,
                float* gradients);
void launch_momentum(cudaStream_t stream, MomentumUpdate update, std::int64_t count, float* parameters,
                     float* gradients, float* velocities);
// `state`: all first moments, then all second moments.
void launch_adam(cudaStream_t stream, AdamUpdate update, std::int64_t count, float* parameters,
                 float* gradients, float* state);

// Matrices of `rows` by `columns`. Every row of `matrix` becomes `row`:
void launch_repeat_row(cudaStream_t stream, std::int64_t rows, std::int64_t columns, const float* row,
                       float* matrix);
// sums[c] += sum over r of matrix[r][c]
void launch_add_column_sums(cudaStream_t stream, std::int64_t rows, std::int64_t columns, const float* matrix,
                            float* sums);
// sums[c] += sum over r of left[r][c] right[r][c]
void launch_add_column_dots(cudaStream_t stream, std::int64_t rows, std::int64_t columns, const float* left,
                            const float* right, float* sums);

void launch_relu(cudaStream_t stream, std::int64_t count, const float* input, float* output);
void launch_relu_backward(cudaStream_t stream, std::int64_t count, const float* input,
                          const float* grad_output, float* grad_input);
void launch_gelu(cudaStream_t stream, std::int64_t count, const float* input, float* output);
void launch_gelu_backward(cudaStream_t stream, std::int64_t count, const float* input,
                          const float* grad_output, float* grad_input);

// Layer norm. `values` are the input before the forward and the normalised rows after it.
void launch_layer_norm(cudaStream_t stream, std::int64_t rows, std::int64_t width, const float* gain,
                       const float* offset, float* values, float* deviations, float* output);
void launch_layer_norm_backward(cudaStream_t stream, std::int64_t rows, std::int64_t width, const float* gain,
                                const float* values, const float* deviations, const float* grad_output,
                                float* grad_input);

// Embedding of `rows` token ids.
struct EmbeddingShape {
  std::int64_t rows, rows_per_sample, vocabulary, width;
};
void launch_embedding(cudaStream_t stream, const EmbeddingShape& shape, const float* ids, const float* tokens,
                      const float* positions, float* output);
// Adds to both gradients.
void launch_embedding_backward(cudaStream_t stream, const EmbeddingShape& shape, const float* ids,
                               const float* grad_output, float* grad_tokens, float* grad_positions);

// Attention. Joined, a row holds `parts` (q, k and v, or one alone) of `width` scalars, a part its heads one
// after the other. Split, a part is samples x heads x length x head_width, and part follows part.
struct HeadShape {
  std::int64_t rows, length, width, head_width, parts;
};
void launch_split_heads(cudaStream_t stream, const HeadShape& shape, const float* joined, float* split);
void launch_join_heads(cudaStream_t stream, const HeadShape& shape, const float* split, float* joined);
// `matrix_count` matrices of `length` by `length`: scores to probabilities in place, 0 above the diagonal.
void launch_causal_softmax(cudaStream_t stream, std::int64_t matrix_count, std::int64_t length, float scale,
                           float* scores);
// The gradient of the probabilities to that of the scores, in place.
void launch_causal_softmax_backward(cudaStream_t stream, std::int64_t matrix_count, std::int64_t length,
                                    float scale, const float* probabilities, float* gradients);

// Losses. The forward leaves a float per row in `row_losses`, whose sum over `count` is the loss. `values` of
// cross-entropy are scores before it and probabilities after it.
void launch_cross_entropy(cudaStream_t stream, std::int64_t rows, std::int64_t width, float* values,
                          const float* targets, float* row_losses);
void launch_cross_entropy_backward(cudaStream_t stream, std::int64_t rows, std::int64_t width,
                                   const float* probabilities, const float* targets, const float* grad_loss,
                                   float* grad_input);
void launch_squared_error(cudaStream_t stream, std::int64_t rows, std::int64_t width, const float* values,
                          const float* targets, float* row_losses);
void launch_squared_error_backward(cudaStream_t stream, std::int64_t count, const float* values,
                                   const float* targets, const float* grad_loss, float* grad_input);
// Sums in double.
void launch_mean_loss(cudaStream_t stream, std::int64_t rows, std::int64_t count, const float* row_losses,
                      float* mean);

}  // namespace pipeplan
