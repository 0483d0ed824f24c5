// The document pipeplan.profile/1: written and read here, field by field in the same order.

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "models/base/digest.hpp"
#include "models/base/json_reader.hpp"
#include "models/zoo/zoo.hpp"
#include "profiler/profile.hpp"

namespace pipeplan {
namespace {

__extension__ using Wide = __int128;

constexpr const char* profile_schema = "pipeplan.profile/1";
constexpr double largest_spread_fraction = 1e6;

Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

template<class T>
Json value_or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json cost_json(const LayerCost& cost) {
  Json json = Json::object();
  json["micro_batch_size"] = cost.micro_batch_size;
  json["forward_ns"] = cost.forward.count();
  if (cost.backward_is_split) {
    json["backward_input_ns"] = cost.backward_input.count();
    json["backward_weight_ns"] = cost.backward_weight.count();
  } else {
    json["backward_ns"] = cost.backward().count();
  }
  json["optimizer_ns"] = cost.optimizer.count();
  json["activation_bytes"] = cost.activation.value;
  json["workspace_bytes"] = cost.workspace.value;
  json["output_bytes"] = cost.output.value;
  if (cost.input) json["input_bytes"] = cost.input->value;
  if (cost.deferred != Bytes{}) json["deferred_bytes"] = cost.deferred.value;
  if (cost.samples) json["samples"] = *cost.samples;
  if (cost.spread_fraction) json["spread_fraction"] = *cost.spread_fraction;
  return json;
}

Json layer_json(const ProfiledLayer& layer) {
  Json json = Json::object();
  json["name"] = layer.name;
  json["kind"] = text_or_null(layer.kind);
  json["parameter_count"] = layer.parameter_count;
  json["parameter_bytes"] = layer.parameter_bytes.value;
  json["colocation"] = value_or_null(layer.colocation);
  json["tied"] = value_or_null(layer.tied);
  json["recomputable"] = layer.recomputable;
  json["costs"] = Json::array();
  for (const LayerCost& cost : layer.costs) json["costs"].push_back(cost_json(cost));
  return json;
}

Json source_json(const ProfileSource& source) {
  Json json = Json::object();
  json["kind"] = source.kind;
  json["device"] = text_or_null(source.device);
  json["tool"] = text_or_null(source.tool);
  json["settings"] = Json::object();
  for (const auto& [key, value] : source.settings) json["settings"][key] = value;
  return json;
}

Json edges_json(const Profile& profile) {
  Json json = Json::array();
  for (const Edge& edge : profile.edges) {
    Json entry = Json::object();
    entry["from"] = profile.layers[edge.from].name;
    entry["to"] = profile.layers[edge.to].name;
    if (edge.bytes) entry["bytes"] = edge.bytes->value;
    json.push_back(std::move(entry));
  }
  return json;
}

std::vector<std::pair<std::string, std::string>> read_settings(ObjectReader& source) {
  std::vector<std::pair<std::string, std::string>> settings;
  if (source.raw("settings").is_null()) return settings;
  ObjectReader reader = source.object("settings");
  for (const std::string& name : source.names("settings")) {
    const Json& value = reader.raw(name);
    if (name == "comment") continue;
    if (value.is_string())
      settings.emplace_back(name, value.get<std::string>());
    else if (value.is_number())
      settings.emplace_back(name, value.dump());
    else
      reader.fail(name, fmt::format("is {}, wanted a string or a number", shown(value)));
  }
  return settings;
}

ProfileSource read_source(ObjectReader reader) {
  ProfileSource source;
  source.kind = reader.text("kind");
  if (source.kind != "measured" && source.kind != "imported" && source.kind != "analytic")
    reader.fail("kind", fmt::format("is '{}', wanted one of measured, imported, analytic", source.kind));
  source.device = reader.optional_text("device").value_or("");
  source.tool = reader.optional_text("tool").value_or("");
  source.settings = read_settings(reader);
  reader.done();
  return source;
}

void read_backward(ObjectReader& reader, LayerCost& cost) {
  const auto whole = reader.optional_time("backward_ns");
  const auto input = reader.optional_time("backward_input_ns");
  const auto weight = reader.optional_time("backward_weight_ns");
  if (whole && (input || weight))
    reader.fail("backward_ns", "stands beside its parts, wanted the whole or the parts");
  if (!whole && !input)
    reader.fail("backward_input_ns", "is missing, and so is backward_ns in place of both parts");
  if (!whole && !weight)
    reader.fail("backward_weight_ns", "is missing, and so is backward_ns in place of both parts");
  cost.backward_is_split = !whole;
  cost.backward_input = whole ? *whole : input.value_or(Nanoseconds{});
  cost.backward_weight = weight.value_or(Nanoseconds{});
}

LayerCost read_cost(ObjectReader reader) {
  LayerCost cost;
  cost.micro_batch_size = reader.integer("micro_batch_size", 1);
  cost.forward = reader.time("forward_ns");
  read_backward(reader, cost);
  cost.optimizer = reader.optional_time("optimizer_ns").value_or(Nanoseconds{});
  cost.activation = reader.optional_bytes("activation_bytes").value_or(Bytes{});
  cost.workspace = reader.optional_bytes("workspace_bytes").value_or(Bytes{});
  cost.output = reader.optional_bytes("output_bytes").value_or(Bytes{});
  cost.input = reader.optional_bytes("input_bytes");
  cost.deferred = reader.optional_bytes("deferred_bytes").value_or(Bytes{});
  cost.samples = reader.optional_integer("samples", 1);
  cost.spread_fraction = reader.optional_number("spread_fraction", 0, largest_spread_fraction);
  reader.done();
  return cost;
}

std::vector<LayerCost> read_costs(ObjectReader& layer) {
  std::vector<LayerCost> costs;
  for (ObjectReader& reader : layer.objects("costs")) {
    const LayerCost cost = read_cost(reader);
    if (!costs.empty() && cost.micro_batch_size <= costs.back().micro_batch_size)
      reader.fail("micro_batch_size", fmt::format("is {} after {}, wanted ascending sizes",
                                                  cost.micro_batch_size, costs.back().micro_batch_size));
    costs.push_back(cost);
  }
  if (costs.empty()) layer.fail("costs", "is empty, wanted at least one cost");
  return costs;
}

ProfiledLayer read_layer(ObjectReader reader) {
  ProfiledLayer layer;
  layer.name = reader.text("name");
  layer.kind = reader.optional_text("kind").value_or("");
  layer.parameter_count = reader.optional_integer("parameter_count").value_or(0);
  layer.parameter_bytes = reader.optional_bytes("parameter_bytes").value_or(Bytes{});
  layer.colocation = reader.optional_text("colocation");
  layer.tied = reader.optional_text("tied");
  layer.recomputable = reader.flag("recomputable", true);
  layer.costs = read_costs(reader);
  reader.done();
  return layer;
}

using LayerNumbers = std::map<std::string, LayerId>;

LayerNumbers read_layers(ObjectReader& document, Profile& profile) {
  LayerNumbers numbers;
  for (ObjectReader& reader : document.objects("layers")) {
    ProfiledLayer layer = read_layer(reader);
    const auto [earlier, added] = numbers.emplace(layer.name, profile.layers.end_id());
    if (!added)
      reader.fail("name",
                  fmt::format("is '{}', already the name of layer {}", layer.name, earlier->second.value));
    profile.layers.push_back(std::move(layer));
  }
  if (profile.layers.empty()) document.fail("layers", "is empty, wanted at least one layer");
  return numbers;
}

LayerId read_edge_end(ObjectReader& reader, const std::string& key, const LayerNumbers& numbers) {
  const std::string name = reader.text(key);
  const auto found = numbers.find(name);
  if (found != numbers.end()) return found->second;
  if (reader.source().failed()) return {};  // one search for the nearest name is enough
  std::vector<std::string> names;
  for (const auto& entry : numbers) names.push_back(entry.first);
  const auto nearest = nearest_spelling(name, names);
  reader.fail(key, fmt::format("is '{}', which is no layer", name),
              nearest ? fmt::format("did you mean '{}'?", *nearest) : "");
  return {};
}

// Names become numbers here; directions, cycles and doubled edges are ModelGraph's to check.
std::vector<Edge> read_edges(ObjectReader& document, const LayerNumbers& numbers) {
  std::vector<Edge> edges;
  if (document.raw("edges").is_null()) return edges;
  for (ObjectReader& reader : document.objects("edges")) {
    Edge edge;
    edge.from = read_edge_end(reader, "from", numbers);
    edge.to = read_edge_end(reader, "to", numbers);
    edge.bytes = reader.optional_bytes("bytes");
    reader.done();
    edges.push_back(edge);
  }
  return edges;
}

// Sums over layers are taken in int64 everywhere else: here is where they are kept from leaving it.
void check_totals(ObjectReader& document, const Profile& profile) {
  Wide time = 0, bytes = 0;
  for (const ProfiledLayer& layer : profile.layers) {
    bytes += layer.parameter_bytes.value;
    for (const LayerCost& cost : layer.costs) {
      time += (cost.forward + cost.backward() + cost.optimizer).count();
      bytes += (cost.activation + cost.workspace + cost.output + cost.deferred).value;
      bytes += cost.input.value_or(Bytes{}).value;
    }
  }
  const std::int64_t most = largest_total_time.count();
  if (time >= most) document.fail("layers", "have times that add up to 2^62 ns (146 years) or more");
  if (bytes >= most) document.fail("layers", "have sizes that add up to 2^62 bytes or more");
}

Result<Profile> with_graph(Profile profile, const std::string& where) {
  PerId<LayerId, Layer> layers;
  for (const ProfiledLayer& layer : profile.layers)
    layers.push_back({layer.name, layer.kind, layer.parameter_count});
  PIPEPLAN_TRY(graph, ModelGraph::make(profile.model, std::move(layers), profile.edges, where));
  profile.edges = graph.edges();
  profile.single_order = graph.has_single_order();
  return profile;
}

}  // namespace

Json to_json(const Profile& profile) {
  Json json = Json::object();
  json["schema"] = profile_schema;
  json["model"] = profile.model;
  json["model_spec"] = profile.model_spec ? to_json(*profile.model_spec) : Json();
  json["source"] = source_json(profile.source);
  json["layers"] = Json::array();
  for (const ProfiledLayer& layer : profile.layers) json["layers"].push_back(layer_json(layer));
  if (profile.edges != chain_edges(profile.layers.size())) json["edges"] = edges_json(profile);
  return json;
}

Result<Profile> profile_from_json(const Json& json, const std::string& source_name) {
  JsonSource source(source_name);
  ObjectReader document(source, json, "");
  Profile profile;
  document.expect_schema(profile_schema);
  profile.model = document.text("model");
  if (!document.raw("model_spec").is_null())
    profile.model_spec = read_model_spec(document.object("model_spec"));
  profile.source = read_source(document.object("source"));
  const LayerNumbers numbers = read_layers(document, profile);
  profile.edges = read_edges(document, numbers);
  check_totals(document, profile);
  document.done();
  PIPEPLAN_TRY(checked, source.result(std::move(profile)));
  return with_graph(std::move(checked), source_name);
}

Result<Profile> read_profile_file(const std::string& path) {
  PIPEPLAN_TRY(json, read_json_file(path));
  return profile_from_json(json, source_name(path));
}

std::string profile_digest(const Profile& profile) { return digest(to_json(profile)); }

}  // namespace pipeplan
