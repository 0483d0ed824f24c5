#include "models/layers/cuda/cuda_layer.hpp"
#include "models/layers/cuda/kernels.hpp"

namespace pipeplan {
namespace {

class CudaRelu final : public CudaLayer {
 public:
  using CudaLayer::CudaLayer;

  void forward(std::int64_t batch, const float*, float* stash, float* output, float*) const override {
    launch("relu", launch_relu, input_count(batch), stash, output);
  }
  void backward_input(std::int64_t batch, const float*, const float* stash, const float* grad_output,
                      float* grad_input, float*, float*) const override {
    if (grad_input == nullptr) return;
    launch("relu backward", launch_relu_backward, input_count(batch), stash, grad_output, grad_input);
  }
};

class CudaGelu final : public CudaLayer {
 public:
  using CudaLayer::CudaLayer;

  void forward(std::int64_t batch, const float*, float* stash, float* output, float*) const override {
    launch("gelu", launch_gelu, input_count(batch), stash, output);
  }
  void backward_input(std::int64_t batch, const float*, const float* stash, const float* grad_output,
                      float* grad_input, float*, float*) const override {
    if (grad_input == nullptr) return;
    launch("gelu backward", launch_gelu_backward, input_count(batch), stash, grad_output, grad_input);
  }
};

}  // namespace

std::unique_ptr<FloatLayer> make_cuda_relu(const LayerSpec& spec, std::unique_ptr<FloatLayer> twin,
                                           CudaWork& work) {
  return std::make_unique<CudaRelu>(spec, std::move(twin), work);
}

std::unique_ptr<FloatLayer> make_cuda_gelu(const LayerSpec& spec, std::unique_ptr<FloatLayer> twin,
                                           CudaWork& work) {
  return std::make_unique<CudaGelu>(spec, std::move(twin), work);
}

}  // namespace pipeplan
