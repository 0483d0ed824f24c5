#pragma once

// A GPT-style decoder as a chain: "embedding", for each block "block.0.attention" and "block.0.mlp"
// (residuals, the norm first), then "norm", "head", "loss". A sample is a row for each token of its sequence.

#include "models/model_graph.hpp"

namespace pipeplan {

// Each size must be within its limits (spec_field.hpp). Heads that do not divide hidden are refused.
Result<ModelGraph> build_transformer(const TransformerSpec& spec);

// Learned values in the whole network.
std::int64_t parameter_total(const TransformerSpec& spec);

}  // namespace pipeplan
