#include "models/layers/linear.hpp"

#include <cmath>

#include "models/layers/eigen.hpp"
#include "models/layers/initial_values.hpp"
#include "models/layers/plain_layer.hpp"
#include "models/layers/product.hpp"

namespace pipeplan {
namespace {

template<class Scalar>
class Linear final : public PlainLayer<Scalar> {
 public:
  using PlainLayer<Scalar>::PlainLayer;

  std::int64_t parameter_count() const override { return weight_count() + outputs(); }
  std::int64_t parameter_buffer_count() const override {
    return bias_offset() + aligned_count<Scalar>(outputs());
  }

  void forward(std::int64_t batch, const Scalar* parameters, Scalar* stash, Scalar* output,
               Scalar*) const override {
    as_matrix(output, this->rows(batch), outputs()).rowwise() =
        as_array(parameters + bias_offset(), outputs()).matrix();
    add_product<Scalar>(Transposed::neither, inputs_at<const Scalar>(stash, batch), weights_at(parameters),
                        outputs_at(output, batch));
  }

  void backward_input(std::int64_t batch, const Scalar* parameters, const Scalar*, const Scalar* grad_output,
                      Scalar* grad_input, Scalar*, Scalar*) const override {
    if (grad_input == nullptr) return;
    set_product<Scalar>(Transposed::right, outputs_at(grad_output, batch), weights_at(parameters),
                        inputs_at(grad_input, batch));
  }

  void backward_weight(std::int64_t batch, const Scalar*, const Scalar* stash, const Scalar* grad_output,
                       const Scalar*, Scalar* grad_parameters, Scalar*) const override {
    add_product<Scalar>(Transposed::left, inputs_at(stash, batch), outputs_at(grad_output, batch),
                        weights_at(grad_parameters));
    auto grad_bias = as_array(grad_parameters + bias_offset(), outputs());
    for (Index row = 0; row < this->rows(batch); ++row) grad_bias += as_row(grad_output, row, outputs());
  }

 protected:
  void set_initial_values(Scalar* parameters, std::uint64_t seed) const override {
    // Variance 1 / inputs (LeCun et al. 1998): signals keep their size from layer to layer.
    InitialValues(seed).fill(parameters, weight_count(), std::sqrt(3 / static_cast<double>(inputs())));
  }

 private:
  [[nodiscard]] std::int64_t inputs() const { return this->spec().inputs; }
  [[nodiscard]] std::int64_t outputs() const { return this->spec().outputs; }
  [[nodiscard]] std::int64_t weight_count() const { return inputs() * outputs(); }
  [[nodiscard]] std::int64_t bias_offset() const { return aligned_count<Scalar>(weight_count()); }

  template<class Value>
  auto inputs_at(Value* first, std::int64_t batch) const {
    return whole_matrix(first, this->rows(batch), inputs());
  }
  template<class Value>
  auto outputs_at(Value* first, std::int64_t batch) const {
    return whole_matrix(first, this->rows(batch), outputs());
  }
  template<class Value>
  auto weights_at(Value* parameters) const {
    return whole_matrix(parameters, inputs(), outputs());
  }
};

}  // namespace

template<class Scalar>
std::unique_ptr<RunnableLayer<Scalar>> make_linear(const LayerSpec& spec) {
  return std::make_unique<Linear<Scalar>>(spec);
}

template std::unique_ptr<RunnableLayer<float>> make_linear(const LayerSpec&);
template std::unique_ptr<RunnableLayer<double>> make_linear(const LayerSpec&);

}  // namespace pipeplan
