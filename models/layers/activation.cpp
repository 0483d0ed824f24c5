#include "models/layers/activation.hpp"

#include "models/layers/eigen.hpp"
#include "models/layers/plain_layer.hpp"

namespace pipeplan {
namespace {

template<class Scalar>
class Relu final : public PlainLayer<Scalar> {
 public:
  using PlainLayer<Scalar>::PlainLayer;

  void forward(std::int64_t batch, const Scalar*, Scalar* stash, Scalar* output, Scalar*) const override {
    const std::int64_t count = this->input_count(batch);
    as_array(output, count) = as_array(stash, count).max(Scalar(0));
  }

  void backward_input(std::int64_t batch, const Scalar*, const Scalar* stash, const Scalar* grad_output,
                      Scalar* grad_input, Scalar*, Scalar*) const override {
    if (grad_input == nullptr) return;
    const std::int64_t count = this->input_count(batch);
    as_array(grad_input, count) =
        (as_array(stash, count) > Scalar(0)).select(as_array(grad_output, count), Scalar(0));
  }
};

// 2u = x (linear_term + cubic_term x^2); 2 sqrt(2/pi) = 1.5957691216...
template<class Scalar>
constexpr Scalar linear_term = Scalar(1.5957691216057307118);
template<class Scalar>
constexpr Scalar cubic_term = Scalar(0.044715 * 1.5957691216057307118);

template<class Scalar>
class Gelu final : public PlainLayer<Scalar> {
 public:
  using PlainLayer<Scalar>::PlainLayer;

  void forward(std::int64_t batch, const Scalar*, Scalar* stash, Scalar* output, Scalar*) const override {
    const std::int64_t count = this->input_count(batch);
    const auto x = as_array<const Scalar>(stash, count);
    as_array(output, count) = x * logistic(x);
  }

  // Piece by piece, so that the logistic values in grad_input are still in the cache when they are used.
  void backward_input(std::int64_t batch, const Scalar*, const Scalar* stash, const Scalar* grad_output,
                      Scalar* grad_input, Scalar*, Scalar*) const override {
    if (grad_input == nullptr) return;
    constexpr std::int64_t piece = 1024;
    const std::int64_t count = this->input_count(batch);
    for (std::int64_t at = 0; at < count; at += piece)
      backward_piece(std::min(piece, count - at), stash + at, grad_output + at, grad_input + at);
  }

 private:
  template<class Array>
  static auto logistic(const Array& x) {
    return (Scalar(1) + (-x * (linear_term<Scalar> + cubic_term<Scalar> * x.square())).exp()).inverse();
  }

  // dx = dy (s + x s (1 - s) (2u)')
  static void backward_piece(std::int64_t count, const Scalar* stash, const Scalar* grad_output,
                             Scalar* grad_input) {
    const auto x = as_array(stash, count);
    auto s = as_array(grad_input, count);
    s = logistic(x);
    const auto slope = linear_term<Scalar> + 3 * cubic_term<Scalar> * x.square();
    s = as_array(grad_output, count) * s * (Scalar(1) + x * (Scalar(1) - s) * slope);
  }
};

}  // namespace

template<class Scalar>
std::unique_ptr<RunnableLayer<Scalar>> make_relu(const LayerSpec& spec) {
  return std::make_unique<Relu<Scalar>>(spec);
}

template<class Scalar>
std::unique_ptr<RunnableLayer<Scalar>> make_gelu(const LayerSpec& spec) {
  return std::make_unique<Gelu<Scalar>>(spec);
}

template std::unique_ptr<RunnableLayer<float>> make_relu(const LayerSpec&);
template std::unique_ptr<RunnableLayer<double>> make_relu(const LayerSpec&);
template std::unique_ptr<RunnableLayer<float>> make_gelu(const LayerSpec&);
template std::unique_ptr<RunnableLayer<double>> make_gelu(const LayerSpec&);

}  // namespace pipeplan
