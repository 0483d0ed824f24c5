#pragma once

// A runnable layer on the CPU: forward, backward for the input and backward for the weights as separate
// calls, on memory that the caller owns. Kernels are single-threaded, allocate nothing and give bit-equal
// results for equal inputs; a layer object holds no state between calls, so one object serves any number of
// micro-batches.
//
// All counts are in scalars, per micro-batch of `batch` samples, and every buffer is 64-byte aligned with its
// size rounded up to 64 bytes (aligned_count). Matrices are row-major, rows = batch * rows_per_sample.
//   stash     what lives from forward to the end of the backward: the layer's input first (input_count), then
//   what
//             the layer adds. forward may overwrite the input part with what its backward needs.
//   deferred  what backward_input leaves for backward_weight beyond grad_output (inner gradients of a
//   residual). scratch   has no meaning between two calls.
// The buffers of one call do not overlap. Kernels put up to 1 MiB on the stack of the calling thread.

#include <cstdint>
#include <memory>
#include <string>

#include "models/base/result.hpp"
#include "models/layers/layer_spec.hpp"

namespace pipeplan {

inline constexpr std::int64_t buffer_alignment = 64;  // bytes: one cache line, widest vector load

// `count` scalars rounded up to whole alignment units.
template<class Scalar>
constexpr std::int64_t aligned_count(std::int64_t count) {
  constexpr std::int64_t unit = buffer_alignment / static_cast<std::int64_t>(sizeof(Scalar));
  return (count + unit - 1) / unit * unit;
}

template<class Scalar>
class RunnableLayer {
 public:
  virtual ~RunnableLayer() = default;

  // The learned values, and the scalars in a buffer of them: each part (weights, bias, inner layer) starts
  // aligned, so the second is a little larger. The padding is 0 in parameters and gradients.
  [[nodiscard]] virtual std::int64_t parameter_count() const = 0;
  [[nodiscard]] virtual std::int64_t parameter_buffer_count() const = 0;
  [[nodiscard]] virtual std::int64_t input_count(std::int64_t batch) const = 0;
  [[nodiscard]] virtual std::int64_t output_count(
      std::int64_t batch) const = 0;  // 1 for a loss: the mean loss
  [[nodiscard]] virtual std::int64_t stash_count(
      std::int64_t batch) const = 0;  // input part included, aligned
  [[nodiscard]] virtual std::int64_t deferred_count(std::int64_t batch) const = 0;
  [[nodiscard]] virtual std::int64_t scratch_count(std::int64_t batch) const = 0;
  // A loss finds its targets in the stash, at this offset, this many; 0 for other layers.
  [[nodiscard]] virtual std::int64_t target_offset(std::int64_t batch) const = 0;
  [[nodiscard]] virtual std::int64_t target_count(std::int64_t batch) const = 0;

  // Fills `parameters`, padding included, from `seed` alone: the same on every stage split.
  virtual void initialize(Scalar* parameters, std::uint64_t seed) const = 0;

  virtual void forward(std::int64_t batch, const Scalar* parameters, Scalar* stash, Scalar* output,
                       Scalar* scratch) const = 0;

  // grad_output: output_count scalars; for a loss one scalar, the factor of the loss (1 / micro-batch count).
  // grad_input may be null where nobody wants it (embedding, first layer): only `deferred` is then filled.
  virtual void backward_input(std::int64_t batch, const Scalar* parameters, const Scalar* stash,
                              const Scalar* grad_output, Scalar* grad_input, Scalar* deferred,
                              Scalar* scratch) const = 0;

  // Adds this micro-batch's gradient to grad_parameters.
  virtual void backward_weight(std::int64_t batch, const Scalar* parameters, const Scalar* stash,
                               const Scalar* grad_output, const Scalar* deferred, Scalar* grad_parameters,
                               Scalar* scratch) const = 0;
};

// Refuses sizes that make no sense (zero, negative or too large, heads that do not divide the width, inner
// shapes that do not meet), naming the layer by `where`.
template<class Scalar>
Result<std::unique_ptr<RunnableLayer<Scalar>>> make_layer(const LayerSpec& spec, const std::string& where);

}  // namespace pipeplan
