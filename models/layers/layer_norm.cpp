#include "models/layers/layer_norm.hpp"

#include <cmath>

#include "models/layers/eigen.hpp"
#include "models/layers/plain_layer.hpp"

namespace pipeplan {
namespace {

template<class Scalar>
class LayerNorm final : public PlainLayer<Scalar> {
 public:
  using PlainLayer<Scalar>::PlainLayer;

  std::int64_t parameter_count() const override { return 2 * width(); }
  std::int64_t parameter_buffer_count() const override { return 2 * offset_offset(); }
  std::int64_t stash_count(std::int64_t batch) const override {
    return deviation_offset(batch) + aligned_count<Scalar>(this->rows(batch));
  }

  void forward(std::int64_t batch, const Scalar* parameters, Scalar* stash, Scalar* output,
               Scalar*) const override {
    const auto gain = as_array(parameters, width());
    const auto offset = as_array(parameters + offset_offset(), width());
    for (Index row = 0; row < this->rows(batch); ++row) {
      auto n = as_row(stash, row, width());
      stash[deviation_offset(batch) + row] = normalize(n);
      as_row(output, row, width()) = n * gain + offset;
    }
  }

  void backward_input(std::int64_t batch, const Scalar* parameters, const Scalar* stash,
                      const Scalar* grad_output, Scalar* grad_input, Scalar*, Scalar*) const override {
    if (grad_input == nullptr) return;
    const auto gain = as_array(parameters, width());
    for (Index row = 0; row < this->rows(batch); ++row) {
      const auto n = as_row(stash, row, width());
      auto grad = as_row(grad_input, row, width());
      grad = as_row(grad_output, row, width()) * gain;
      const Scalar mean = grad.mean();
      const Scalar along = (grad * n).mean();
      grad = (grad - mean - n * along) / stash[deviation_offset(batch) + row];
    }
  }

  void backward_weight(std::int64_t batch, const Scalar*, const Scalar* stash, const Scalar* grad_output,
                       const Scalar*, Scalar* grad_parameters, Scalar*) const override {
    auto grad_gain = as_array(grad_parameters, width());
    auto grad_offset = as_array(grad_parameters + offset_offset(), width());
    for (Index row = 0; row < this->rows(batch); ++row) {
      const auto grad = as_row(grad_output, row, width());
      grad_gain += grad * as_row(stash, row, width());
      grad_offset += grad;
    }
  }

 protected:
  void set_initial_values(Scalar* parameters, std::uint64_t) const override {
    std::fill_n(parameters, width(), Scalar(1));
  }

 private:
  [[nodiscard]] std::int64_t width() const { return this->spec().inputs; }
  [[nodiscard]] std::int64_t offset_offset() const { return aligned_count<Scalar>(width()); }
  [[nodiscard]] std::int64_t deviation_offset(std::int64_t batch) const {
    return aligned_count<Scalar>(this->input_count(batch));
  }

  // Returns what the row was divided by. The 1e-5 keeps a row of equal values finite.
  template<class Row>
  static Scalar normalize(Row& row) {
    const Scalar mean = row.mean();
    row -= mean;
    const Scalar deviation = std::sqrt(row.square().mean() + Scalar(1e-5));
    row /= deviation;
    return deviation;
  }
};

}  // namespace

template<class Scalar>
std::unique_ptr<RunnableLayer<Scalar>> make_layer_norm(const LayerSpec& spec) {
  return std::make_unique<LayerNorm<Scalar>>(spec);
}

template std::unique_ptr<RunnableLayer<float>> make_layer_norm(const LayerSpec&);
template std::unique_ptr<RunnableLayer<double>> make_layer_norm(const LayerSpec&);

}  // namespace pipeplan
