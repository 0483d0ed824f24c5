#include "models/layers/embedding.hpp"

#include <cmath>

#include "models/layers/eigen.hpp"
#include "models/layers/initial_values.hpp"
#include "models/layers/plain_layer.hpp"

namespace pipeplan {
namespace {

template<class Scalar>
class Embedding final : public PlainLayer<Scalar> {
 public:
  using PlainLayer<Scalar>::PlainLayer;

  std::int64_t parameter_count() const override { return token_count() + position_count(); }
  std::int64_t parameter_buffer_count() const override {
    return position_offset() + aligned_count<Scalar>(position_count());
  }

  void forward(std::int64_t batch, const Scalar* parameters, Scalar* stash, Scalar* output,
               Scalar*) const override {
    for (Index row = 0; row < this->rows(batch); ++row)
      as_row(output, row, width()) = token(parameters, stash[row]) + position(parameters, row);
  }

  void backward_input(std::int64_t batch, const Scalar*, const Scalar*, const Scalar*, Scalar* grad_input,
                      Scalar*, Scalar*) const override {
    if (grad_input != nullptr) std::fill_n(grad_input, this->input_count(batch), Scalar(0));
  }

  void backward_weight(std::int64_t batch, const Scalar*, const Scalar* stash, const Scalar* grad_output,
                       const Scalar*, Scalar* grad_parameters, Scalar*) const override {
    for (Index row = 0; row < this->rows(batch); ++row) {
      const auto grad = as_row(grad_output, row, width());
      token(grad_parameters, stash[row]) += grad;
      position(grad_parameters, row) += grad;
    }
  }

 protected:
  void set_initial_values(Scalar* parameters, std::uint64_t seed) const override {
    const double bound = 1 / std::sqrt(static_cast<double>(width()));
    InitialValues values(seed);
    values.fill(parameters, token_count(), bound);
    values.fill(parameters + position_offset(), position_count(), bound);
  }

 private:
  [[nodiscard]] std::int64_t width() const { return this->spec().outputs; }
  [[nodiscard]] std::int64_t token_count() const { return this->spec().vocabulary * width(); }
  [[nodiscard]] std::int64_t position_count() const { return this->spec().rows_per_sample * width(); }
  [[nodiscard]] std::int64_t position_offset() const { return aligned_count<Scalar>(token_count()); }

  template<class Value>
  auto token(Value* parameters, Scalar id) const {
    PIPEPLAN_ASSERT(id >= 0 && id < static_cast<Scalar>(this->spec().vocabulary));
    return as_row(parameters, static_cast<Index>(id), width());
  }
  template<class Value>
  auto position(Value* parameters, Index row) const {
    return as_row(parameters + position_offset(), row % this->spec().rows_per_sample, width());
  }
};

}  // namespace

template<class Scalar>
std::unique_ptr<RunnableLayer<Scalar>> make_embedding(const LayerSpec& spec) {
  return std::make_unique<Embedding<Scalar>>(spec);
}

template std::unique_ptr<RunnableLayer<float>> make_embedding(const LayerSpec&);
template std::unique_ptr<RunnableLayer<double>> make_embedding(const LayerSpec&);

}  // namespace pipeplan
