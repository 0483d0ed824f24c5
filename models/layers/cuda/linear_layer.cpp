#include "models/layers/cuda/cuda_layer.hpp"
#include "models/layers/cuda/kernels.hpp"
#include "models/layers/cuda/product.hpp"

namespace pipeplan {
namespace {

class CudaLinear final : public CudaLayer {
 public:
  CudaLinear(const LayerSpec& spec, std::unique_ptr<FloatLayer> twin, CudaWork& work)
      : CudaLayer(spec, std::move(twin), work), product_(work) {}

  void forward(std::int64_t batch, const float* parameters, float* stash, float* output,
               float*) const override {
    if (!ready()) return;
    const float* bias = parameters + bias_offset();
    const auto input = inputs_at<const float>(stash, batch);
    const auto weights = weights_at(parameters);
    if (product_.set_with_bias(input, weights, bias, outputs_at(output, batch))) return;
    launch("repeat row", launch_repeat_row, rows(batch), outputs(), bias, output);
    product_.add(Transposed::neither, input, weights, outputs_at(output, batch));
  }

  void backward_input(std::int64_t batch, const float* parameters, const float*, const float* grad_output,
                      float* grad_input, float*, float*) const override {
    if (grad_input == nullptr || !ready()) return;
    product_.set(Transposed::right, outputs_at(grad_output, batch), weights_at(parameters),
                 inputs_at(grad_input, batch));
  }

  void backward_weight(std::int64_t batch, const float*, const float* stash, const float* grad_output,
                       const float*, float* grad_parameters, float*) const override {
    if (!ready()) return;
    product_.add(Transposed::left, inputs_at(stash, batch), outputs_at(grad_output, batch),
                 weights_at(grad_parameters));
    launch("column sums", launch_add_column_sums, rows(batch), outputs(), grad_output,
           grad_parameters + bias_offset());
  }

 private:
  [[nodiscard]] std::int64_t inputs() const { return spec().inputs; }
  [[nodiscard]] std::int64_t outputs() const { return spec().outputs; }
  [[nodiscard]] std::int64_t bias_offset() const { return aligned_count<float>(inputs() * outputs()); }

  template<class Value>
  MatrixPart<Value> inputs_at(Value* first, std::int64_t batch) const {
    return whole_matrix(first, rows(batch), inputs());
  }
  template<class Value>
  MatrixPart<Value> outputs_at(Value* first, std::int64_t batch) const {
    return whole_matrix(first, rows(batch), outputs());
  }
  template<class Value>
  MatrixPart<Value> weights_at(Value* parameters) const {
    return whole_matrix(parameters, inputs(), outputs());
  }

  CudaProduct product_;
};

}  // namespace

std::unique_ptr<FloatLayer> make_cuda_linear(const LayerSpec& spec, std::unique_ptr<FloatLayer> twin,
                                             CudaWork& work) {
  return std::make_unique<CudaLinear>(spec, std::move(twin), work);
}

}  // namespace pipeplan
