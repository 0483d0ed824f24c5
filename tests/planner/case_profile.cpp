#include "tests/planner/case_profile.hpp"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "models/base/assert.hpp"
#include "tests/support/reference.hpp"

namespace pipeplan::test {
namespace {

Nanoseconds microseconds(const Json& layer, const char* key, const char* other_key = "") {
  const Json& value = layer.contains(key) ? layer[key] : layer[other_key];
  return Nanoseconds{std::llround(value.get<double>() * 1000)};
}

Bytes bytes(const Json& layer, const char* key) { return Bytes{layer.value(key, std::int64_t{0})}; }

ProfiledLayer case_layer(const Json& layer, const std::string& name, bool with_outputs) {
  ProfiledLayer profiled;
  profiled.name = name;
  profiled.kind = "case";
  profiled.parameter_bytes = bytes(layer, "parameter_bytes");
  LayerCost cost;
  cost.forward = microseconds(layer, "forward_us", "forward_us_at_unit_speed");
  cost.backward_input = microseconds(layer, "backward_us");
  cost.backward_is_split = false;
  cost.activation = bytes(layer, "activation_bytes");
  if (with_outputs) cost.output = bytes(layer, "output_bytes");
  profiled.costs = {cost};
  return profiled;
}

std::vector<std::pair<std::size_t, std::size_t>> case_edges(const Json& input, std::size_t layers) {
  if (input.contains("edges")) return input["edges"].get<std::vector<std::pair<std::size_t, std::size_t>>>();
  std::vector<std::pair<std::size_t, std::size_t>> chain;
  for (std::size_t i = 0; i + 1 < layers; ++i) chain.emplace_back(i, i + 1);
  return chain;
}

std::vector<ProfiledLayer> case_layers(const Json& input, bool with_outputs) {
  std::vector<ProfiledLayer> layers;
  if (input.contains("layers_repeat"))
    for (std::size_t i = 0; i < input["layers_repeat"]["count"].get<std::size_t>(); ++i)
      layers.push_back(
          case_layer(input["layers_repeat"]["template"], fmt::format("layer{}", i), with_outputs));
  else
    for (const Json& layer : input["layers"])
      layers.push_back(case_layer(layer, layer["id"].get<std::string>(), with_outputs));
  return layers;
}

}  // namespace

Json read_case(const std::string& number) {
  for (const auto& entry : std::filesystem::directory_iterator(case_folder())) {
    if (entry.path().filename().string().substr(0, number.size() + 1) != number + "-") continue;
    auto json = read_json_file(entry.path().string());
    PIPEPLAN_ASSERT(json.has_value());
    return *json;
  }
  PIPEPLAN_UNREACHABLE("a case with this number");
}

Result<Profile> case_profile(const Json& input, bool with_outputs) {
  Profile profile;
  profile.model = "case";
  profile.layers = PerId<LayerId, ProfiledLayer>(case_layers(input, with_outputs));
  PerId<LayerId, Layer> layers;
  for (const ProfiledLayer& layer : profile.layers) layers.push_back({layer.name, layer.kind, 0, {}});
  std::vector<Edge> edges;
  for (const auto& [from, to] : case_edges(input, profile.layers.size()))
    edges.push_back({id_of<LayerId>(from), id_of<LayerId>(to), {}});
  PIPEPLAN_TRY(graph, ModelGraph::make(profile.model, layers, edges, "case"));
  profile.edges = graph.edges();
  profile.single_order = graph.has_single_order();
  return profile;
}

}  // namespace pipeplan::test
