#pragma once

// Synthetic training data: inputs and targets of a micro-batch from a seed, the iteration and the
// micro-batch's number alone, so that the first and the last stage make them apart and every run sees the
// same. The targets can be learnt (the next token of a repeating sequence; a smooth function of the inputs),
// so that a falling loss means something.

#include <cstdint>
#include <span>

#include "models/layers/layer_spec.hpp"

namespace pipeplan {

struct BatchKey {
  std::int64_t seed = 0;
  std::int64_t iteration = 0;
  std::int64_t micro_batch = 0;
};

// Fills the first layer's input: token ids for an embedding, numbers in [-1, 1) otherwise.
void fill_inputs(const LayerSpec& first_layer, const BatchKey& key, std::span<float> inputs);

// Fills the loss's targets for the inputs that fill_inputs gives under the same key.
void fill_targets(const LayerSpec& first_layer, const LayerSpec& loss, const BatchKey& key,
                  std::span<float> targets);

}  // namespace pipeplan
