#include "models/layers/cuda/cuda_layer.hpp"
#include "models/layers/cuda/kernels.hpp"
#include "models/layers/inner_layers.hpp"

namespace pipeplan {
namespace {

// Parameters lie as in the CPU's layer. The other buffers are laid out the same way from the sizes of the
// inner CUDA layers.
class CudaResidual final : public CudaLayer {
 public:
  CudaResidual(const LayerSpec& spec, std::unique_ptr<FloatLayer> twin, CudaWork& work,
               std::vector<std::unique_ptr<FloatLayer>> inner)
      : CudaLayer(spec, std::move(twin), work), inner_(std::move(inner)) {}

  std::int64_t stash_count(std::int64_t batch) const override {
    return inner_.stash_offset(inner_.size(), batch);
  }
  std::int64_t deferred_count(std::int64_t batch) const override {
    return inner_.gradient_offset(inner_.size(), batch);
  }
  std::int64_t scratch_count(std::int64_t batch) const override { return inner_.scratch_count(batch); }

  void forward(std::int64_t batch, const float* parameters, float* stash, float* output,
               float* scratch) const override {
    const std::int64_t count = output_count(batch);
    // x is taken before the first inner layer may overwrite it.
    copy(stash, output, count);
    inner_.forward(batch, parameters, stash, scratch);
    launch("add", launch_add, count, scratch, output);
  }

  void backward_input(std::int64_t batch, const float* parameters, const float* stash,
                      const float* grad_output, float* grad_input, float* deferred,
                      float* scratch) const override {
    inner_.backward_input(batch, parameters, stash, grad_output, grad_input, deferred, scratch);
    if (grad_input != nullptr) launch("add", launch_add, input_count(batch), grad_output, grad_input);
  }

  void backward_weight(std::int64_t batch, const float* parameters, const float* stash,
                       const float* grad_output, const float* deferred, float* grad_parameters,
                       float* scratch) const override {
    inner_.backward_weight(batch, parameters, stash, grad_output, deferred, grad_parameters, scratch);
  }

 private:
  InnerLayers<float> inner_;
};

}  // namespace

std::unique_ptr<FloatLayer> make_cuda_residual(const LayerSpec& spec, std::unique_ptr<FloatLayer> twin,
                                               CudaWork& work,
                                               std::vector<std::unique_ptr<FloatLayer>> inner) {
  return std::make_unique<CudaResidual>(spec, std::move(twin), work, std::move(inner));
}

}  // namespace pipeplan
