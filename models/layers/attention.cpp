#include "models/layers/attention.hpp"

#include <cmath>

#include "models/layers/eigen.hpp"
#include "models/layers/plain_layer.hpp"
#include "models/layers/product.hpp"

namespace pipeplan {
namespace {

enum Part { query, key, value };

template<class Scalar>
class Attention final : public PlainLayer<Scalar> {
 public:
  using PlainLayer<Scalar>::PlainLayer;

  std::int64_t stash_count(std::int64_t batch) const override {
    return probability_offset(batch, 0) + aligned_count<Scalar>(batch * heads() * length() * length());
  }
  std::int64_t scratch_count(std::int64_t) const override {
    return aligned_count<Scalar>(length() * length());
  }

  void forward(std::int64_t batch, const Scalar*, Scalar* stash, Scalar* output, Scalar*) const override {
    for (std::int64_t head = 0; head < batch * heads(); ++head) {
      const Scalar* input = stash;
      Scalar* p = stash + probability_offset(batch, head);
      set_product<Scalar>(Transposed::right, part(input, head, query), part(input, head, key), scores(p));
      for (Index row = 0; row < length(); ++row) causal_softmax(p, row);
      set_product<Scalar>(Transposed::neither, scores<const Scalar>(p), part(input, head, value),
                          merged(output, head));
    }
  }

  void backward_input(std::int64_t batch, const Scalar*, const Scalar* stash, const Scalar* grad_output,
                      Scalar* grad_input, Scalar*, Scalar* scratch) const override {
    if (grad_input == nullptr) return;
    const Scalar* grad_scores = scratch;
    for (std::int64_t head = 0; head < batch * heads(); ++head) {
      const Scalar* p = stash + probability_offset(batch, head);
      const auto grad = merged(grad_output, head);
      set_product<Scalar>(Transposed::left, scores(p), grad, part(grad_input, head, value));
      set_product<Scalar>(Transposed::right, grad, part(stash, head, value), scores(scratch));
      for (Index row = 0; row < length(); ++row) softmax_backward(p, row, scratch);
      set_product<Scalar>(Transposed::neither, scores(grad_scores), part(stash, head, key),
                          part(grad_input, head, query));
      set_product<Scalar>(Transposed::left, scores(grad_scores), part(stash, head, query),
                          part(grad_input, head, key));
    }
  }

 private:
  [[nodiscard]] std::int64_t length() const { return this->spec().rows_per_sample; }
  [[nodiscard]] std::int64_t heads() const { return this->spec().heads; }
  [[nodiscard]] std::int64_t width() const { return this->spec().outputs; }
  [[nodiscard]] std::int64_t head_width() const { return width() / heads(); }
  [[nodiscard]] Scalar scale() const { return 1 / std::sqrt(static_cast<Scalar>(head_width())); }

  // `head` counts the heads of all samples.
  [[nodiscard]] std::int64_t probability_offset(std::int64_t batch, std::int64_t head) const {
    return aligned_count<Scalar>(this->input_count(batch)) + head * length() * length();
  }
  template<class Value>
  auto part(Value* input, std::int64_t head, Part which) const {
    const std::int64_t column = which * width() + head % heads() * head_width();
    Value* first = input + head / heads() * length() * 3 * width() + column;
    return MatrixPart<Value>{first, length(), head_width(), 3 * width()};
  }
  template<class Value>
  auto merged(Value* output, std::int64_t head) const {
    Value* first = output + head / heads() * length() * width() + head % heads() * head_width();
    return MatrixPart<Value>{first, length(), head_width(), width()};
  }
  template<class Value>
  auto scores(Value* first) const {
    return whole_matrix(first, length(), length());
  }

  // Scores of row `row` to probabilities: 0 for all later rows.
  void causal_softmax(Scalar* scores, Index row) const {
    auto all = as_row(scores, row, length());
    auto seen = all.head(row + 1);
    const Scalar largest = seen.maxCoeff();
    seen = ((seen - largest) * scale()).exp();
    seen /= seen.sum();
    all.tail(length() - row - 1).setZero();
  }

  // dP of row `row` to dS, in place.
  void softmax_backward(const Scalar* probabilities, Index row, Scalar* grad_scores) const {
    auto all = as_row(grad_scores, row, length());
    auto grad = all.head(row + 1);
    const auto p = as_row(probabilities, row, length()).head(row + 1);
    const Scalar along = (grad * p).sum();
    grad = p * (grad - along) * scale();
    all.tail(length() - row - 1).setZero();
  }
};

}  // namespace

template<class Scalar>
std::unique_ptr<RunnableLayer<Scalar>> make_attention(const LayerSpec& spec) {
  return std::make_unique<Attention<Scalar>>(spec);
}

template std::unique_ptr<RunnableLayer<float>> make_attention(const LayerSpec&);
template std::unique_ptr<RunnableLayer<double>> make_attention(const LayerSpec&);

}  // namespace pipeplan
