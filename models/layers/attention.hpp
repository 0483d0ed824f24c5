#pragma once

// The core of causal self-attention (Vaswani et al. 2017, equation 1), head by head, without parameters.
// Input rows hold q, k and v of all heads side by side; a row attends to itself and to the rows before it
// within its sample.
//   P = softmax(Q K^T / sqrt(d))    O = P V
//   dV = P^T dO    dP = dO V^T    dS = P (dP - row sums of dP P) / sqrt(d)    dQ = dS K    dK = dS^T Q
// The stash keeps P after the input: batch * heads matrices of rows_per_sample squared.

#include <memory>

#include "models/layers/layer.hpp"

namespace pipeplan {

template<class Scalar>
std::unique_ptr<RunnableLayer<Scalar>> make_attention(const LayerSpec& spec);

}  // namespace pipeplan
