#include "models/layers/residual.hpp"

#include "models/layers/eigen.hpp"
#include "models/layers/initial_values.hpp"
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
    for (const auto& layer : inner_) sum += layer->parameter_count();
    return sum;
  }
  std::int64_t parameter_buffer_count() const override { return parameter_offset(inner_.size()); }
  std::int64_t stash_count(std::int64_t batch) const override { return stash_offset(inner_.size(), batch); }
  std::int64_t deferred_count(std::int64_t batch) const override {
    return gradient_offset(inner_.size(), batch);
  }
  std::int64_t scratch_count(std::int64_t batch) const override {
    std::int64_t largest = 0;
    for (const auto& layer : inner_) largest = std::max(largest, layer->scratch_count(batch));
    return inner_output_count(inner_.size() - 1, batch) + largest;
  }

  void forward(std::int64_t batch, const Scalar* parameters, Scalar* stash, Scalar* output,
               Scalar* scratch) const override {
    const std::int64_t count = this->output_count(batch);
    // x is taken before the first inner layer may overwrite it.
    std::copy_n(stash, count, output);
    Scalar* inner_scratch = scratch + aligned_count<Scalar>(count);
    for (std::size_t i = 0; i < inner_.size(); ++i) {
      Scalar* inner_output = i + 1 < inner_.size() ? stash + stash_offset(i + 1, batch) : scratch;
      inner_[i]->forward(batch, parameters + parameter_offset(i), stash + stash_offset(i, batch),
                         inner_output, inner_scratch);
    }
    as_array(output, count) += as_array<const Scalar>(scratch, count);
  }

  void backward_input(std::int64_t batch, const Scalar* parameters, const Scalar* stash,
                      const Scalar* grad_output, Scalar* grad_input, Scalar* deferred,
                      Scalar* scratch) const override {
    const Scalar* gradient = grad_output;
    for (std::size_t i = inner_.size(); i-- > 0;) {
      Scalar* inner_grad_input = i > 0 ? deferred + gradient_offset(i - 1, batch) : grad_input;
      inner_[i]->backward_input(batch, parameters + parameter_offset(i), stash + stash_offset(i, batch),
                                gradient, inner_grad_input, deferred + deferred_offset(i, batch), scratch);
      gradient = inner_grad_input;
    }
    if (grad_input == nullptr) return;
    const std::int64_t count = this->input_count(batch);
    as_array(grad_input, count) += as_array(grad_output, count);
  }

  void backward_weight(std::int64_t batch, const Scalar* parameters, const Scalar* stash,
                       const Scalar* grad_output, const Scalar* deferred, Scalar* grad_parameters,
                       Scalar* scratch) const override {
    for (std::size_t i = 0; i < inner_.size(); ++i) {
      const Scalar* gradient = i + 1 < inner_.size() ? deferred + gradient_offset(i, batch) : grad_output;
      inner_[i]->backward_weight(batch, parameters + parameter_offset(i), stash + stash_offset(i, batch),
                                 gradient, deferred + deferred_offset(i, batch),
                                 grad_parameters + parameter_offset(i), scratch);
    }
  }

 protected:
  void set_initial_values(Scalar* parameters, std::uint64_t seed) const override {
    for (std::size_t i = 0; i < inner_.size(); ++i)
      inner_[i]->initialize(parameters + parameter_offset(i), part_seed(seed, i));
  }

 private:
  [[nodiscard]] std::int64_t inner_output_count(std::size_t i, std::int64_t batch) const {
    return aligned_count<Scalar>(inner_[i]->output_count(batch));
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

  std::vector<std::unique_ptr<RunnableLayer<Scalar>>> inner_;
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
