#pragma once

// A network as a directed acyclic graph: layers in a topological order and the tensors that pass between
// them. A ModelGraph is valid by construction: names unique and not empty, edges between known layers, no
// cycles, every edge leading forward in the order.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "models/base/id.hpp"
#include "models/base/result.hpp"
#include "models/base/units.hpp"
#include "models/layers/layer_spec.hpp"

namespace pipeplan {

// A multi-layer perceptron: `layers` hidden layers (linear and ReLU) of `width`, and a linear head, with mean
// squared error against synthetic targets.
struct MlpSpec {
  std::int64_t inputs = 64;
  std::int64_t width = 512;
  std::int64_t layers = 8;
  std::int64_t outputs = 16;
  std::int64_t seed = 0;
  friend bool operator==(const MlpSpec&, const MlpSpec&) = default;
};

// A GPT-style decoder: embedding, `blocks` of attention and MLP with residuals, norm, head, cross-entropy
// loss.
struct TransformerSpec {
  std::int64_t blocks = 8;
  std::int64_t hidden = 256;
  std::int64_t heads = 4;
  std::int64_t sequence = 128;
  std::int64_t vocabulary = 1000;
  std::int64_t seed = 0;
  friend bool operator==(const TransformerSpec&, const TransformerSpec&) = default;
};

// What builds a runnable network again; stored in profiles.
using ModelSpec = std::variant<MlpSpec, TransformerSpec>;

struct Layer {
  std::string name;
  std::string kind;  // for people: "linear", "attention", "Conv2d"
  std::int64_t parameter_count = 0;
  std::optional<LayerSpec> runnable = {};  // absent for imported networks: they can be planned, not run
};

struct Edge {
  LayerId from;
  LayerId to;
  std::optional<Bytes> bytes = {};  // absent: the producer's output
  friend bool operator==(const Edge&, const Edge&) = default;
};

class ModelGraph {
 public:
  // `where` names the document in errors. No edges at all means a chain in the given order.
  static Result<ModelGraph> make(std::string name, PerId<LayerId, Layer> layers, std::vector<Edge> edges,
                                 const std::string& where);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const PerId<LayerId, Layer>& layers() const { return layers_; }
  [[nodiscard]] const std::vector<Edge>& edges() const { return edges_; }  // sorted by (from, to)
  // True if the given order is the only topological order: each layer feeds the next and nothing runs beside
  // it. Skip connections do not break that.
  [[nodiscard]] bool has_single_order() const { return single_order_; }
  [[nodiscard]] bool runnable() const;
  // The spec this graph was built from, where a builder of the zoo made it.
  [[nodiscard]] const std::optional<ModelSpec>& spec() const { return spec_; }
  void set_spec(ModelSpec spec) { spec_ = std::move(spec); }

 private:
  std::string name_;
  PerId<LayerId, Layer> layers_;
  std::vector<Edge> edges_;
  std::optional<ModelSpec> spec_;
  bool single_order_ = true;
};

// Node numbers 0 … names.size()-1 in topological order, the smallest number first among those that are ready.
// A cycle is an error that lists its layers: "cycle n1 -> n2 -> n1".
Result<std::vector<std::size_t>> topological_order(
    const std::vector<std::string>& names, const std::vector<std::pair<std::size_t, std::size_t>>& edges,
    const std::string& where);

// Layer i feeds layer i+1.
std::vector<Edge> chain_edges(std::size_t layer_count);

}  // namespace pipeplan
