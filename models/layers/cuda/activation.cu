#include "models/layers/cuda/activation_body.hpp"
#include "models/layers/cuda/kernels.hpp"
#include "models/layers/cuda/launch.cuh"

namespace pipeplan {

void launch_relu(cudaStream_t stream, std::int64_t count, const float* input, float* output) {
  launch_elements(count, Relu{input, output}, stream);
}

void launch_relu_backward(cudaStream_t stream, std::int64_t count, const float* input,
                          const float* grad_output, float* grad_input) {
  launch_elements(count, ReluBackward{input, grad_output, grad_input}, stream);
}

void launch_gelu(cudaStream_t stream, std::int64_t count, const float* input, float* output) {
  launch_elements(count, Gelu{input, output}, stream);
}

void launch_gelu_backward(cudaStream_t stream, std::int64_t count, const float* input,
                          const float* grad_output, float* grad_input) {
  launch_elements(count, GeluBackward{input, grad_output, grad_input}, stream);
}

}  // namespace pipeplan
