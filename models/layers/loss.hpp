#pragma once

// The ends of a network: one number to make small, against targets that stand in the stash after the input.
//   cross_entropy       mean over rows of log(sum(exp(x))) - x[class]; targets: one class per row, a whole
//   number held by
//                       a scalar. dx = (softmax(x) - one at the class) / rows. forward turns the input into
//                       softmax(x).
//   mean_squared_error  mean over rows and columns of (x - target)^2. dx = 2 (x - target) / (rows * inputs).
// Gradients are times grad_output[0]. Means are summed in double, row by row.

#include <memory>

#include "models/layers/layer.hpp"

namespace pipeplan {

template<class Scalar>
std::unique_ptr<RunnableLayer<Scalar>> make_cross_entropy(const LayerSpec& spec);

template<class Scalar>
std::unique_ptr<RunnableLayer<Scalar>> make_mean_squared_error(const LayerSpec& spec);

}  // namespace pipeplan
