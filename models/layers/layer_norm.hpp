#pragma once

// Each row brought to mean 0 and variance 1, then y = gain n + offset with n = (x - mean) / sqrt(variance +
// 1e-5) (Ba, Kiros, Hinton 2016).
//   dn = dy gain    dx = (dn - mean(dn) - n mean(dn n)) / sqrt(variance + 1e-5)
// Parameters: gain, offset (initially 1 and 0). forward turns the stash's input into n; one deviation per row
// follows.

#include <memory>

#include "models/layers/layer.hpp"

namespace pipeplan {

template<class Scalar>
std::unique_ptr<RunnableLayer<Scalar>> make_layer_norm(const LayerSpec& spec);

}  // namespace pipeplan
