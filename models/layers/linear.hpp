#pragma once

// y = x W + b, with W of inputs by outputs.
//   dx = dy W^T    dW = x^T dy    db = column sums of dy
// Parameters: W, b. Initial values: W uniform within 1/sqrt(inputs), b 0.

#include <memory>

#include "models/layers/layer.hpp"

namespace pipeplan {

template<class Scalar>
std::unique_ptr<RunnableLayer<Scalar>> make_linear(const LayerSpec& spec);

}  // namespace pipeplan
