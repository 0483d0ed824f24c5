#include "models/layers/cuda/kernels.hpp"
#include "models/layers/cuda/launch.cuh"
#include "models/layers/cuda/loss_body.hpp"

namespace pipeplan {

void launch_cross_entropy(cudaStream_t stream, std::int64_t rows, std::int64_t width, float* values,
                          const float* targets, float* row_losses) {
  launch_rows(rows, width, CrossEntropyRow{values, targets, row_losses, width}, stream);
}

void launch_cross_entropy_backward(cudaStream_t stream, std::int64_t rows, std::int64_t width,
                                   const float* probabilities, const float* targets, const float* grad_loss,
                                   float* grad_input) {
  const CrossEntropyBackwardRow body{probabilities, targets, grad_loss, grad_input, rows, width};
  launch_rows(rows, width, body, stream);
}

void launch_squared_error(cudaStream_t stream, std::int64_t rows, std::int64_t width, const float* values,
                          const float* targets, float* row_losses) {
  launch_rows(rows, width, SquaredErrorRow{values, targets, row_losses, width}, stream);
}

void launch_squared_error_backward(cudaStream_t stream, std::int64_t count, const float* values,
                                   const float* targets, const float* grad_loss, float* grad_input) {
  launch_elements(count, SquaredErrorBackward{values, targets, grad_loss, grad_input, count}, stream);
}

void launch_mean_loss(cudaStream_t stream, std::int64_t rows, std::int64_t count, const float* row_losses,
                      float* mean) {
  launch_rows(1, rows, MeanLoss{row_losses, mean, rows, count}, stream);
}

}  // namespace pipeplan
