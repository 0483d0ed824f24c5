#include "models/layers/loss.hpp"

#include <cmath>

#include "models/layers/eigen.hpp"
#include "models/layers/plain_layer.hpp"

namespace pipeplan {
namespace {

template<class Scalar>
class Loss : public PlainLayer<Scalar> {
 public:
  using PlainLayer<Scalar>::PlainLayer;

  std::int64_t output_count(std::int64_t) const final { return 1; }
  std::int64_t stash_count(std::int64_t batch) const final {
    return target_offset(batch) + aligned_count<Scalar>(this->target_count(batch));
  }
  std::int64_t target_offset(std::int64_t batch) const final {
    return aligned_count<Scalar>(this->input_count(batch));
  }
};

template<class Scalar>
class CrossEntropy final : public Loss<Scalar> {
 public:
  using Loss<Scalar>::Loss;

  std::int64_t target_count(std::int64_t batch) const override { return this->rows(batch); }

  void forward(std::int64_t batch, const Scalar*, Scalar* stash, Scalar* output, Scalar*) const override {
    double sum = 0;
    for (Index row = 0; row < this->rows(batch); ++row) {
      auto x = as_row(stash, row, this->spec().inputs);
      const Scalar wanted = x[target_class(batch, stash, row)];
      sum += static_cast<double>(softmax(x) - wanted);
    }
    *output = static_cast<Scalar>(sum / static_cast<double>(this->rows(batch)));
  }

  void backward_input(std::int64_t batch, const Scalar*, const Scalar* stash, const Scalar* grad_output,
                      Scalar* grad_input, Scalar*, Scalar*) const override {
    if (grad_input == nullptr) return;
    const Scalar factor = *grad_output / static_cast<Scalar>(this->rows(batch));
    for (Index row = 0; row < this->rows(batch); ++row) {
      auto grad = as_row(grad_input, row, this->spec().inputs);
      grad = as_row(stash, row, this->spec().inputs) * factor;
      grad[target_class(batch, stash, row)] -= factor;
    }
  }

 private:
  [[nodiscard]] Index target_class(std::int64_t batch, const Scalar* stash, Index row) const {
    const Scalar target = stash[this->target_offset(batch) + row];
    PIPEPLAN_ASSERT(target >= 0 && target < static_cast<Scalar>(this->spec().inputs));
    return static_cast<Index>(target);
  }

  // In place; returns log(sum(exp(x))).
  template<class Row>
  static Scalar softmax(Row& x) {
    const Scalar largest = x.maxCoeff();
    x = (x - largest).exp();
    const Scalar sum = x.sum();
    x /= sum;
    return largest + std::log(sum);
  }
};

template<class Scalar>
class MeanSquaredError final : public Loss<Scalar> {
 public:
  using Loss<Scalar>::Loss;

  std::int64_t target_count(std::int64_t batch) const override { return this->input_count(batch); }

  void forward(std::int64_t batch, const Scalar*, Scalar* stash, Scalar* output, Scalar*) const override {
    double sum = 0;
    for (Index row = 0; row < this->rows(batch); ++row)
      sum += static_cast<double>(difference(batch, stash, row).square().sum());
    *output = static_cast<Scalar>(sum / static_cast<double>(this->input_count(batch)));
  }

  void backward_input(std::int64_t batch, const Scalar*, const Scalar* stash, const Scalar* grad_output,
                      Scalar* grad_input, Scalar*, Scalar*) const override {
    if (grad_input == nullptr) return;
    const Scalar factor = 2 * *grad_output / static_cast<Scalar>(this->input_count(batch));
    for (Index row = 0; row < this->rows(batch); ++row)
      as_row(grad_input, row, this->spec().inputs) = difference(batch, stash, row) * factor;
  }

 private:
  [[nodiscard]] auto difference(std::int64_t batch, const Scalar* stash, Index row) const {
    return as_row(stash, row, this->spec().inputs) -
           as_row(stash + this->target_offset(batch), row, this->spec().inputs);
  }
};

}  // namespace

template<class Scalar>
std::unique_ptr<RunnableLayer<Scalar>> make_cross_entropy(const LayerSpec& spec) {
  return std::make_unique<CrossEntropy<Scalar>>(spec);
}

template<class Scalar>
std::unique_ptr<RunnableLayer<Scalar>> make_mean_squared_error(const LayerSpec& spec) {
  return std::make_unique<MeanSquaredError<Scalar>>(spec);
}

template std::unique_ptr<RunnableLayer<float>> make_cross_entropy(const LayerSpec&);
template std::unique_ptr<RunnableLayer<double>> make_cross_entropy(const LayerSpec&);
template std::unique_ptr<RunnableLayer<float>> make_mean_squared_error(const LayerSpec&);
template std::unique_ptr<RunnableLayer<double>> make_mean_squared_error(const LayerSpec&);

}  // namespace pipeplan
