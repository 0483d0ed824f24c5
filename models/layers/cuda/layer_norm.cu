#include "models/layers/cuda/kernels.hpp"
#include "models/layers/cuda/launch.cuh"
#include "models/layers/cuda/layer_norm_body.hpp"

namespace pipeplan {

void launch_layer_norm(cudaStream_t stream, std::int64_t rows, std::int64_t width, const float* gain,
                       const float* offset, float* values, float* deviations, float* output) {
  launch_rows(rows, width, LayerNormRow{gain, offset, values, deviations, output, width}, stream);
}

void launch_layer_norm_backward(cudaStream_t stream, std::int64_t rows, std::int64_t width, const float* gain,
                                const float* values, const float* deviations, const float* grad_output,
                                float* grad_input) {
  const LayerNormBackwardRow body{gain, values, deviations, grad_output, grad_input, width};
  launch_rows(rows, width, body, stream);
}

}  // namespace pipeplan
