#pragma once

// Element by element, without parameters.
//   relu  y = max(x, 0), derivative 0 at 0
//   gelu  y = x (1 + tanh(u)) / 2 with u = sqrt(2/pi) (x + 0.044715 x^3) (Hendrycks, Gimpel 2016, section 2),
//         computed as y = x s(2u) with the logistic function s, which is the same and needs one exponential.

#include <memory>

#include "models/layers/layer.hpp"

namespace pipeplan {

template<class Scalar>
std::unique_ptr<RunnableLayer<Scalar>> make_relu(const LayerSpec& spec);

template<class Scalar>
std::unique_ptr<RunnableLayer<Scalar>> make_gelu(const LayerSpec& spec);

}  // namespace pipeplan
