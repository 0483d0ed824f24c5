#pragma once

// y = token vector of the row's id + position vector of the row's place in its sample; both are learned. An
// id is a whole number from 0 to vocabulary - 1, held by a scalar; it has no gradient, and backward_input
// gives 0 where asked. Parameters: token vectors, position vectors. Initial values: uniform within
// 1/sqrt(outputs).

#include <memory>

#include "models/layers/layer.hpp"

namespace pipeplan {

template<class Scalar>
std::unique_ptr<RunnableLayer<Scalar>> make_embedding(const LayerSpec& spec);

}  // namespace pipeplan
