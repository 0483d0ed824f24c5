#pragma once

// The layers inside a residual one, run one after the other, and where in its buffers the part of each lies:
// the same on every processor. See residual.hpp for what the buffers hold.

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "models/layers/layer.hpp"

namespace pipeplan {

template<class Scalar>
class InnerLayers {
 public:
  using Layers = std::vector<std::unique_ptr<RunnableLayer<Scalar>>>;

  explicit InnerLayers(Layers layers) : layers_(std::move(layers)) {}

  [[nodiscard]] std::size_t size() const { return layers_.size(); }
  [[nodiscard]] const RunnableLayer<Scalar>& operator[](std::size_t i) const { return *layers_[i]; }

  // Where the part of layer i begins; for i = size() the size of the whole.
  [[nodiscard]] std::int64_t parameter_offset(std::size_t i) const {
    return sum_before(i, [&](std::size_t layer) { return layers_[layer]->parameter_buffer_count(); });
  }
  [[nodiscard]] std::int64_t stash_offset(std::size_t i, std::int64_t batch) const {
    return sum_before(i, [&](std::size_t layer) { return layers_[layer]->stash_count(batch); });
  }
  [[nodiscard]] std::int64_t gradient_offset(std::size_t i, std::int64_t batch) const {
    return sum_before(i, [&](std::size_t layer) {
      return kept_gradient_count(layer, batch) + layers_[layer]->deferred_count(batch);
    });
  }

  // What the residual's scratch must hold: the last output, then what any layer needs.
  [[nodiscard]] std::int64_t scratch_count(std::int64_t batch) const {
    std::int64_t largest = 0;
    for (const auto& layer : layers_) largest = std::max(largest, layer->scratch_count(batch));
    return output_count(size() - 1, batch) + largest;
  }

  // Leaves the last output at the beginning of the scratch.
  void forward(std::int64_t batch, const Scalar* parameters, Scalar* stash, Scalar* scratch) const {
    Scalar* inner_scratch = scratch + output_count(size() - 1, batch);
    for (std::size_t i = 0; i < size(); ++i) {
      Scalar* output = i + 1 < size() ? stash + stash_offset(i + 1, batch) : scratch;
      layers_[i]->forward(batch, parameters + parameter_offset(i), stash + stash_offset(i, batch), output,
                          inner_scratch);
    }
  }

  void backward_input(std::int64_t batch, const Scalar* parameters, const Scalar* stash,
                      const Scalar* grad_output, Scalar* grad_input, Scalar* deferred,
                      Scalar* scratch) const {
    const Scalar* gradient = grad_output;
    for (std::size_t i = size(); i-- > 0;) {
      Scalar* inner_grad_input = i > 0 ? deferred + gradient_offset(i - 1, batch) : grad_input;
      layers_[i]->backward_input(batch, parameters + parameter_offset(i), stash + stash_offset(i, batch),
                                 gradient, inner_grad_input, deferred + deferred_offset(i, batch), scratch);
      gradient = inner_grad_input;
    }
  }

  void backward_weight(std::int64_t batch, const Scalar* parameters, const Scalar* stash,
                       const Scalar* grad_output, const Scalar* deferred, Scalar* grad_parameters,
                       Scalar* scratch) const {
    for (std::size_t i = 0; i < size(); ++i) {
      const Scalar* gradient = i + 1 < size() ? deferred + gradient_offset(i, batch) : grad_output;
      layers_[i]->backward_weight(batch, parameters + parameter_offset(i), stash + stash_offset(i, batch),
                                  gradient, deferred + deferred_offset(i, batch),
                                  grad_parameters + parameter_offset(i), scratch);
    }
  }

 private:
  template<class Count>
  static std::int64_t sum_before(std::size_t i, Count count) {
    std::int64_t sum = 0;
    for (std::size_t before = 0; before < i; ++before) sum += count(before);
    return sum;
  }

  [[nodiscard]] std::int64_t output_count(std::size_t i, std::int64_t batch) const {
    return aligned_count<Scalar>(layers_[i]->output_count(batch));
  }
  // Of the gradient of layer i's output; the last one's is the residual's own.
  [[nodiscard]] std::int64_t kept_gradient_count(std::size_t i, std::int64_t batch) const {
    return i + 1 < size() ? output_count(i, batch) : 0;
  }
  [[nodiscard]] std::int64_t deferred_offset(std::size_t i, std::int64_t batch) const {
    return gradient_offset(i, batch) + kept_gradient_count(i, batch);
  }

  Layers layers_;
};

}  // namespace pipeplan
