#include "models/layers/residual.hpp"

#include "models/layers/eigen.hpp"
#include "models/layers/initial_values.hpp"
#include "models/layers/inner_layers.hpp"
#include "models/layers/plain_layer.hpp"

namespace pipeplan {
namespace {

template<class Scalar>
class Residual final : public PlainLayer<Scalar> {
 public:
  Residual(const LayerSpec& spec, std::vector<std::unique_ptr<RunnableLayer<Scalar>>> inner)
      : PlainLayer<Scalar>(spec), inner_(std::move(inner)) {}

  std::int64_t parameter_count() const override {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < inner_.size(); ++i) sum += inner_[i].parameter_count();
    return sum;
  }
  std::int64_t parameter_buffer_count() const override { return inner_.parameter_offset(inner_.size()); }
  std::int64_t stash_count(std::int64_t batch) const override {
    return inner_.stash_offset(inner_.size(), batch);
  }
  std::int64_t deferred_count(std::int64_t batch) const override {
    return inner_.gradient_offset(inner_.size(), batch);
  }
  std::int64_t scratch_count(std::int64_t batch) const override { return inner_.scratch_count(batch); }

  void forward(std::int64_t batch, const Scalar* parameters, Scalar* stash, Scalar* output,
               Scalar* scratch) const override {
    const std::int64_t count = this->output_count(batch);
    // x is taken before the first inner layer may overwrite it.
    std::copy_n(stash, count, output);
    inner_.forward(batch, parameters, stash, scratch);
    as_array(output, count) += as_array<const Scalar>(scratch, count);
  }

  void backward_input(std::int64_t batch, const Scalar* parameters, const Scalar* stash,
                      const Scalar* grad_output, Scalar* grad_input, Scalar* deferred,
                      Scalar* scratch) const override {
    inner_.backward_input(batch, parameters, stash, grad_output, grad_input, deferred, scratch);
    if (grad_input == nullptr) return;
    const std::int64_t count = this->input_count(batch);
    as_array(grad_input, count) += as_array(grad_output, count);
  }

  void backward_weight(std::int64_t batch, const Scalar* parameters, const Scalar* stash,
                       const Scalar* grad_output, const Scalar* deferred, Scalar* grad_parameters,
                       Scalar* scratch) const override {
    inner_.backward_weight(batch, parameters, stash, grad_output, deferred, grad_parameters, scratch);
  }

 protected:
  void set_initial_values(Scalar* parameters, std::uint64_t seed) const override {
    for (std::size_t i = 0; i < inner_.size(); ++i)
      inner_[i].initialize(parameters + inner_.parameter_offset(i), part_seed(seed, i));
  }

 private:
  InnerLayers<Scalar> inner_;
};

}  // namespace

template<class Scalar>
std::unique_ptr<RunnableLayer<Scalar>> make_residual(
    const LayerSpec& spec, std::vector<std::unique_ptr<RunnableLayer<Scalar>>> inner) {
  return std::make_unique<Residual<Scalar>>(spec, std::move(inner));
}

template std::unique_ptr<RunnableLayer<float>> make_residual(
    const LayerSpec&, std::vector<std::unique_ptr<RunnableLayer<float>>>);
template std::unique_ptr<RunnableLayer<double>> make_residual(
    const LayerSpec&, std::vector<std::unique_ptr<RunnableLayer<double>>>);

}  // namespace pipeplan
