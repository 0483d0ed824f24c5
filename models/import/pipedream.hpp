#pragma once

// Reads PipeDream's profiler output (graph.txt): nodes "id -- description -- forward_compute_time=F,
// backward_compute_time=B, activation_size=A, parameter_size=P [-- stage_id=S]" with times in ms per
// minibatch and sizes in bytes (A a number or "[a; b; c]", summed), edges "TAB src -- dst". Nodes come in any
// order; layers are put into topological order, the smallest node number first. Times are rounded to whole
// ns. Stage ids are read past. Nodes and edges that come twice are refused, and so are several nodes without
// an edge.

#include <string>
#include <string_view>

#include "models/import/imported_model.hpp"

namespace pipeplan {

// Layer names are node ids ("node12"), kinds the operator at the head of the description ("Conv2d"). Errors
// carry source:line.
Result<ImportedModel> import_pipedream(std::string_view text, const std::string& source);

}  // namespace pipeplan
