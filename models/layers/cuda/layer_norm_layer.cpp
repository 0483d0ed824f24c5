#include "models/layers/cuda/cuda_layer.hpp"
#include "models/layers/cuda/kernels.hpp"

namespace pipeplan {
namespace {

// Parameters and stash as the CPU's: gain, offset; normalised rows, what each was divided by.
class CudaLayerNorm final : public CudaLayer {
 public:
  using CudaLayer::CudaLayer;

  void forward(std::int64_t batch, const float* parameters, float* stash, float* output,
               float*) const override {
    launch("layer norm", launch_layer_norm, rows(batch), width(), parameters, parameters + offset_offset(),
           stash, stash + deviation_offset(batch), output);
  }

  void backward_input(std::int64_t batch, const float* parameters, const float* stash,
                      const float* grad_output, float* grad_input, float*, float*) const override {
    if (grad_input == nullptr) return;
    launch("layer norm backward", launch_layer_norm_backward, rows(batch), width(), parameters, stash,
           stash + deviation_offset(batch), grad_output, grad_input);
  }

  void backward_weight(std::int64_t batch, const float*, const float* stash, const float* grad_output,
                       const float*, float* grad_parameters, float*) const override {
    launch("column dots", launch_add_column_dots, rows(batch), width(), grad_output, stash, grad_parameters);
    launch("column sums", launch_add_column_sums, rows(batch), width(), grad_output,
           grad_parameters + offset_offset());
  }

 private:
  [[nodiscard]] std::int64_t width() const { return spec().inputs; }
  [[nodiscard]] std::int64_t offset_offset() const { return aligned_count<float>(width()); }
  [[nodiscard]] std::int64_t deviation_offset(std::int64_t batch) const {
    return aligned_count<float>(input_count(batch));
  }
};

}  // namespace

std::unique_ptr<FloatLayer> make_cuda_layer_norm(const LayerSpec& spec, std::unique_ptr<FloatLayer> twin,
                                                 CudaWork& work) {
  return std::make_unique<CudaLayerNorm>(spec, std::move(twin), work);
}

}  // namespace pipeplan
