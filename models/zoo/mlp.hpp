#pragma once

// A multi-layer perceptron as a chain: "hidden.0", "relu.0", … "head", "loss". A sample is one row.

#include "models/model_graph.hpp"

namespace pipeplan {

// Each size must be within its limits (spec_field.hpp).
Result<ModelGraph> build_mlp(const MlpSpec& spec);

// Learned values in the whole network.
std::int64_t parameter_total(const MlpSpec& spec);

}  // namespace pipeplan
