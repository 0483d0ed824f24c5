#pragma once

// What each layer of a network costs: times in ns and sizes in bytes per micro-batch, at one or more
// micro-batch sizes. The document is pipeplan.profile/1.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/base/json_file.hpp"
#include "models/base/warning.hpp"
#include "models/import/imported_model.hpp"
#include "models/model_graph.hpp"

namespace pipeplan {

struct LayerCost {
  std::int64_t micro_batch_size = 1;
  Nanoseconds forward{};
  Nanoseconds backward_input{};   // the whole backward if it is not split
  Nanoseconds backward_weight{};  // 0 if it is not split
  bool backward_is_split = true;
  Nanoseconds optimizer{};  // one step, whatever the micro-batch size
  Bytes activation;         // kept from forward to the end of the backward
  Bytes workspace;          // needed while the layer runs
  Bytes output;             // sent once to each later stage that uses it
  // Kept in place of `activation` where the layer is recomputed; absent: the tensor that the layer before it
  // sends.
  std::optional<Bytes> input = {};
  Bytes deferred = {};  // kept from B to W where the two run apart
  std::optional<std::int64_t> samples = {};
  std::optional<double> spread_fraction =
      {};  // median absolute deviation of forward + backward over their median

  [[nodiscard]] Nanoseconds backward() const { return backward_input + backward_weight; }
  friend bool operator==(const LayerCost&, const LayerCost&) = default;
};

struct ProfiledLayer {
  std::string name;
  std::string kind;
  std::int64_t parameter_count = 0;
  Bytes parameter_bytes;
  std::optional<std::string> colocation = {};
  std::optional<std::string> tied = {};
  bool recomputable = true;
  std::vector<LayerCost> costs;  // ascending micro-batch size, at least one
  friend bool operator==(const ProfiledLayer&, const ProfiledLayer&) = default;
};

struct ProfileSource {
  std::string kind = "measured";  // measured, imported, analytic
  std::string device;
  std::string tool;
  std::vector<std::pair<std::string, std::string>> settings;
  // The setting of this name; empty if there is none.
  [[nodiscard]] std::string setting(const std::string& name) const;
  friend bool operator==(const ProfileSource&, const ProfileSource&) = default;
};

struct Profile {
  std::string model;
  std::optional<ModelSpec> model_spec;  // absent: it can be planned and simulated, not run
  ProfileSource source;
  PerId<LayerId, ProfiledLayer> layers;
  std::vector<Edge> edges;   // sorted by (from, to)
  bool single_order = true;  // see ModelGraph::has_single_order
  friend bool operator==(const Profile&, const Profile&) = default;
};

// The profile of an imported model: one cost per layer, at the importer's micro-batch size.
Profile imported_profile(const ImportedModel& imported);

// Micro-batch sizes at which every layer has a cost, ascending.
std::vector<std::int64_t> profiled_sizes(const Profile& profile);

enum class Extrapolation { refused, allowed };

// The layer's cost at a micro-batch size: measured, or interpolated by the straight line through the two
// neighbours. Outside the measured range it is refused, or, if allowed, taken from the line through the two
// nearest sizes (from one size alone: in proportion); never below 0.
Result<LayerCost> cost_at(const ProfiledLayer& layer, std::int64_t micro_batch_size,
                          Extrapolation extrapolation);

// Things about the numbers that a planner's user should know (a dominant layer, a suspicious unit).
std::vector<Warning> profile_warnings(const Profile& profile);

Json to_json(const Profile& profile);
Result<Profile> profile_from_json(const Json& json, const std::string& source);
Result<Profile> read_profile_file(const std::string& path);
// Digest of the document: what plans carry to tell whether they were made for this profile.
std::string profile_digest(const Profile& profile);

}  // namespace pipeplan
