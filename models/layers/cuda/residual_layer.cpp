#include <algorithm>

#include "models/layers/cuda/cuda_layer.hpp"
#include "models/layers/cuda/kernels.hpp"

namespace pipeplan {
namespace {

// Parameters lie as in the CPU's layer. The other buffers are laid out the same way from the sizes of the
// inner CUDA layers.
class CudaResidual final : public CudaLayer {
 public:
  CudaResidual(const LayerSpec& spec, std::unique_ptr<FloatLayer> twin, CudaWork& work,
               std::vector<std::unique_ptr<FloatLayer>> inner)
      : CudaLayer(spec, std::move(twin), work), inner_(std::move(inner)) {}

  std::int64_t stash_count(std::int64_t batch) const override { return stash_offset(inner_.size(), batch); }
  std::int64_t deferred_count(std::int64_t batch) const override {
    return gradient_offset(inner_.size(), batch);
  }
  std::int64_t scratch_count(std::int64_t batch) const override {
    std::int64_t largest = 0;
    for (const auto& layer : inner_) largest = std::max(largest, layer->scratch_count(batch));
    return inner_output_count(inner_.size() - 1, batch) + largest;
  }

  void forward(std::int64_t batch, const float* parameters, float* stash, float* output,
               float* scratch) const override {
    const std::int64_t count = output_count(batch);
    // x is taken before the first inner layer may overwrite it.
    copy(stash, output, count);
    float* inner_scratch = scratch + aligned_count<float>(count);
    for (std::size_t i = 0; i < inner_.size(); ++i) {
      float* inner_output = i + 1 < inner_.size() ? stash + stash_offset(i + 1, batch) : scratch;
      inner_[i]->forward(batch, parameters + parameter_offset(i), stash + stash_offset(i, batch),
                         inner_output, inner_scratch);
    }
    launch("add", launch_add, count, scratch, output);
  }

  void backward_input(std::int64_t batch, const float* parameters, const float* stash,
                      const float* grad_output, float* grad_input, float* deferred,
                      float* scratch) const override {
    const float* gradient = grad_output;
    for (std::size_t i = inner_.size(); i-- > 0;) {
      float* inner_grad_input = i > 0 ? deferred + gradient_offset(i - 1, batch) : grad_input;
      inner_[i]->backward_input(batch, parameters + parameter_offset(i), stash + stash_offset(i, batch),
                                gradient, inner_grad_input, deferred + deferred_offset(i, batch), scratch);
      gradient = inner_grad_input;
    }
    if (grad_input != nullptr) launch("add", launch_add, input_count(batch), grad_output, grad_input);
  }

  void backward_weight(std::int64_t batch, const float* parameters, const float* stash,
                       const float* grad_output, const float* deferred, float* grad_parameters,
                       float* scratch) const override {
    for (std::size_t i = 0; i < inner_.size(); ++i) {
      const float* gradient = i + 1 < inner_.size() ? deferred + gradient_offset(i, batch) : grad_output;
      inner_[i]->backward_weight(batch, parameters + parameter_offset(i), stash + stash_offset(i, batch),
                                 gradient, deferred + deferred_offset(i, batch),
                                 grad_parameters + parameter_offset(i), scratch);
    }
  }

 private:
  [[nodiscard]] std::int64_t inner_output_count(std::size_t i, std::int64_t batch) const {
    return aligned_count<float>(inner_[i]->output_count(batch));
  }

  // Where the part of inner layer i begins; for i = inner_.size() the size of the whole.
  [[nodiscard]] std::int64_t parameter_offset(std::size_t i) const {
    std::int64_t sum = 0;
    for (std::size_t before = 0; before < i; ++before) sum += inner_[before]->parameter_buffer_count();
    return sum;
  }
  [[nodiscard]] std::int64_t stash_offset(std::size_t i, std::int64_t batch) const {
    std::int64_t sum = 0;
    for (std::size_t before = 0; before < i; ++before) sum += inner_[before]->stash_count(batch);
    return sum;
  }
  [[nodiscard]] std::int64_t gradient_offset(std::size_t i, std::int64_t batch) const {
    std::int64_t sum = 0;
    for (std::size_t before = 0; before < i; ++before)
      sum += kept_gradient_count(before, batch) + inner_[before]->deferred_count(batch);
    return sum;
  }
  [[nodiscard]] std::int64_t deferred_offset(std::size_t i, std::int64_t batch) const {
    return gradient_offset(i, batch) + kept_gradient_count(i, batch);
  }
  [[nodiscard]] std::int64_t kept_gradient_count(std::size_t i, std::int64_t batch) const {
    return i + 1 < inner_.size() ? inner_output_count(i, batch) : 0;
  }

  std::vector<std::unique_ptr<FloatLayer>> inner_;
};

}  // namespace

std::unique_ptr<FloatLayer> make_cuda_residual(const LayerSpec& spec, std::unique_ptr<FloatLayer> twin,
                                               CudaWork& work,
                                               std::vector<std::unique_ptr<FloatLayer>> inner) {
  return std::make_unique<CudaResidual>(spec, std::move(twin), work, std::move(inner));
}

}  // namespace pipeplan
