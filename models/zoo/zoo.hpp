#pragma once

// Named builders of runnable networks.

#include "models/base/json_reader.hpp"
#include "models/model_graph.hpp"

namespace pipeplan {

// The layers of the network that `spec` describes, in order, with their runnable specs. Sizes that make no
// sense are refused by name (zero, heads that do not divide hidden).
Result<ModelGraph> build_model(const ModelSpec& spec);

// "mlp", "transformer".
std::string model_name(const ModelSpec& spec);

// {"name": "transformer", "blocks": 8, …}: what a profile stores to build its network again.
Json to_json(const ModelSpec& spec);
ModelSpec read_model_spec(ObjectReader object);

}  // namespace pipeplan
