#pragma once

// What an importer gives: a network and what its layers cost, measured elsewhere.

#include <optional>
#include <string>
#include <vector>

#include "models/base/units.hpp"
#include "models/base/warning.hpp"
#include "models/model_graph.hpp"

namespace pipeplan {

struct ImportedCost {
  Nanoseconds forward{};
  Nanoseconds backward_input{};  // the whole backward where the file does not split it
  Nanoseconds backward_weight{};
  bool backward_is_split = false;
  Bytes parameter_bytes;
  Bytes activation_bytes;
  Bytes output_bytes;
};

struct ImportedModel {
  ModelGraph graph;
  PerId<LayerId, ImportedCost> costs;
  std::string tool;                   // "pipedream", "csv"
  std::int64_t micro_batch_size = 1;  // samples the costs are for, as far as the file says
  std::vector<Warning> warnings;
};

// The model that an importer has read. Refuses costs whose sums over all layers would leave int64, and
// whatever ModelGraph::make refuses; the model's name is that of the file, "vgg16" for
// "graphs/vgg16.graph.txt".
Result<ImportedModel> assemble_import(PerId<LayerId, Layer> layers, std::vector<Edge> edges,
                                      PerId<LayerId, ImportedCost> costs, const std::string& tool,
                                      const std::string& source);

}  // namespace pipeplan
