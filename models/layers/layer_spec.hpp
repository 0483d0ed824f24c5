#pragma once

// What a runnable layer is: its kind and sizes, as plain values. A sample is `rows_per_sample` rows (the
// sequence length of a transformer, 1 for an MLP) of `inputs` scalars; the layer turns them into as many rows
// of `outputs`.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "models/base/spelling.hpp"

namespace pipeplan {

enum class LayerKind {
  embedding,           // token ids (inputs = 1) to learned token and position vectors (outputs = width)
  linear,              // y = x W + b
  gelu,                // tanh form
  relu,                //
  layer_norm,          // over one row, with gain and offset
  attention,           // causal self-attention core: rows hold q, k, v (inputs = 3 outputs), no parameters
  residual,            // y = x + inner(x); inner layers in order
  cross_entropy,       // softmax cross-entropy against one class per row; mean over rows
  mean_squared_error,  // mean over rows and columns of (x - target)^2
};

constexpr auto spellings(LayerKind) {
  using enum LayerKind;
  return std::to_array<Spelling<LayerKind>>({{embedding, "embedding"},
                                             {linear, "linear"},
                                             {gelu, "gelu"},
                                             {relu, "relu"},
                                             {layer_norm, "layer_norm"},
                                             {attention, "attention"},
                                             {residual, "residual"},
                                             {cross_entropy, "cross_entropy"},
                                             {mean_squared_error, "mean_squared_error"}});
}

struct LayerSpec {
  LayerKind kind = LayerKind::linear;
  std::int64_t rows_per_sample = 1;
  std::int64_t inputs = 0;      // scalars per row that come in
  std::int64_t outputs = 0;     // scalars per row that go out; 0 for a loss, which ends the network
  std::int64_t heads = 0;       // attention
  std::int64_t vocabulary = 0;  // embedding: count of token ids
  std::vector<LayerSpec> inner = {};

  friend bool operator==(const LayerSpec&, const LayerSpec&) = default;
};

// Largest size in a LayerSpec: token and class ids travel as scalars, and a float holds every whole number up
// to here.
inline constexpr std::int64_t largest_layer_size = 1 << 24;

// A loss is the last layer of a network and compares with targets: class ids (one per row) for cross_entropy,
// rows of `inputs` scalars for mean_squared_error.
inline bool is_loss(const LayerSpec& spec) {
  return spec.kind == LayerKind::cross_entropy || spec.kind == LayerKind::mean_squared_error;
}

}  // namespace pipeplan
