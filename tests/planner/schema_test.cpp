// The published JSON Schemas against the readers: on thousands of documents with one fault each, both say the
// same, except for what a schema cannot say (listed below). This is the one file that includes valijson.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <functional>
#include <nlohmann/json.hpp>

// GCC 12 sees an overlap in "text" + std::string that is none (GCC bug 105651).
#pragma GCC diagnostic push
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wrestrict"
#endif
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validator.hpp>
#pragma GCC diagnostic pop

#include "models/cluster.hpp"
#include "planner/plan.hpp"
#include "profiler/profile.hpp"
#include "tests/support/reference.hpp"

namespace pipeplan {
namespace {

using valijson::adapters::NlohmannJsonAdapter;
using PlainJson = nlohmann::json;  // what valijson's adapter takes

PlainJson read_schema(const std::string& name) {
  const auto text = read_text_file((test::source_folder() / "models/schema" / name).string());
  REQUIRE(text.has_value());
  return PlainJson::parse(*text);
}

class PublishedSchema {
 public:
  explicit PublishedSchema(const std::string& name) {
    const PlainJson json = read_schema(name);
    const auto fetch = [](const std::string& uri) {
      return new PlainJson(read_schema(uri.substr(uri.rfind('/') + 1)));
    };
    valijson::SchemaParser().populateSchema(NlohmannJsonAdapter(json), schema_, fetch,
                                            [](const PlainJson* document) { delete document; });
  }

  [[nodiscard]] bool accepts(const Json& document) const {
    const PlainJson plain = PlainJson::parse(document.dump());
    return valijson::Validator().validate(schema_, NlohmannJsonAdapter(plain), nullptr);
  }

 private:
  valijson::Schema schema_;
};

// Every place in a document, as JSON pointers; the document itself is "".
void add_places(const Json& json, const std::string& here, std::vector<std::string>& places) {
  places.push_back(here);
  if (json.is_object())
    for (const auto& [key, value] : json.items())
      add_places(value, fmt::format("{}/{}", here, json_pointer_token(key)), places);
  if (json.is_array())
    for (std::size_t i = 0; i < json.size(); ++i) add_places(json[i], fmt::format("{}/{}", here, i), places);
}

std::vector<std::string> places(const Json& json) {
  std::vector<std::string> places;
  add_places(json, "", places);
  return places;
}

struct Mutant {
  std::string change;
  Json document;
};

// Each place once with each of these values, once left out, and each object once with a key of no meaning.
std::vector<Mutant> mutants(const Json& good) {
  const std::vector<Json> values{
      nullptr, true, -1, 0, 1, 2, 0.5, largest_document_integer, "", "x", Json::array(), Json::object()};
  std::vector<Mutant> mutants;
  for (const std::string& place : places(good)) {
    const Json::json_pointer pointer(place);
    for (const Json& value : values) {
      Json document = good;
      document[pointer] = value;
      mutants.push_back({fmt::format("{} = {}", place, value.dump()), std::move(document)});
    }
    if (good[pointer].is_object())
      for (const char* key : {"comment", "unknown"}) {
        Json document = good;
        document[pointer][key] = "text";
        mutants.push_back({fmt::format("{}/{} added", place, key), std::move(document)});
      }
    if (pointer.empty()) continue;
    Json document = good;
    Json& parent = document[pointer.parent_pointer()];
    if (parent.is_object())
      parent.erase(pointer.back());
    else
      parent.erase(parent.begin() + std::stoi(pointer.back()));
    mutants.push_back({place + " removed", std::move(document)});
  }
  return mutants;
}

// An error about how values relate to each other, which a schema cannot state.
using BeyondSchema = std::function<bool(const Error&)>;

bool says(const Error& error, std::initializer_list<const char*> phrases) {
  return std::any_of(phrases.begin(), phrases.end(),
                     [&](const char* phrase) { return error.message.find(phrase) != std::string::npos; });
}

struct Agreement {
  std::size_t accepted = 0, refused = 0;
};

template<class Read>
Agreement compare(const PublishedSchema& schema, const Json& good, Read read,
                  const BeyondSchema& beyond_schema) {
  Agreement agreement;
  REQUIRE(schema.accepts(good));
  REQUIRE(read(good).has_value());
  for (const Mutant& mutant : mutants(good)) {
    const auto value = read(mutant.document);
    INFO(mutant.change << ": "
                       << (value ? "" : fmt::format("{} {}", value.error().where, value.error().message)));
    const bool accepted = value.has_value() || beyond_schema(value.error());
    CHECK(schema.accepts(mutant.document) == accepted);
    ++(value ? agreement.accepted : agreement.refused);
  }
  return agreement;
}

Result<Profile> read_profile(const Json& json) { return profile_from_json(json, "p.json"); }

Result<Cluster> read_cluster_json(const Json& json) {
  JsonSource source("c.json");
  Cluster cluster = read_cluster(ObjectReader(source, json, ""));
  return source.result(std::move(cluster));
}

Json parsed(const char* text) {
  const auto json = parse_json(text, "good.json");
  REQUIRE(json.has_value());
  return *json;
}

const char* const good_profile = R"({"schema": "pipeplan.profile/1", "model": "m",
  "model_spec": {"name": "transformer", "blocks": 8, "hidden": 256, "heads": 4, "sequence": 128, "vocabulary": 1000,
                 "seed": 0},
  "source": {"kind": "measured", "device": "cpu", "tool": "t", "settings": {"runs": 3, "clock": "fixed"}},
  "layers": [
   {"name": "a", "kind": "linear", "parameter_count": 1, "parameter_bytes": 4, "colocation": "c", "tied": null,
    "recomputable": true,
    "costs": [{"micro_batch_size": 1, "forward_ns": 3, "backward_input_ns": 4, "backward_weight_ns": 5,
               "optimizer_ns": 6, "activation_bytes": 7, "workspace_bytes": 8, "output_bytes": 9, "samples": 15,
               "spread_fraction": 0.012},
              {"micro_batch_size": 2, "forward_ns": 3, "backward_ns": 4}]},
   {"name": "b", "costs": [{"micro_batch_size": 1, "forward_ns": 3, "backward_ns": 4}]}],
  "edges": [{"from": "a", "to": "b", "bytes": 5}]})";

const char* const good_mlp_profile = R"({"schema": "pipeplan.profile/1", "model": "m",
  "model_spec": {"name": "mlp", "inputs": 1, "width": 2, "layers": 3, "outputs": 4, "seed": 5},
  "source": {"kind": "analytic"},
  "layers": [{"name": "a", "costs": [{"micro_batch_size": 1, "forward_ns": 3, "backward_ns": 4}]}]})";

const char* const good_cluster = R"({"schema": "pipeplan.cluster/1", "name": "c",
  "device_types": {"d": {"memory_bytes": 16, "reserved_bytes": 1, "speed_factor": 1.5, "peak_flops": {"bf16": 1e14},
                         "memory_bandwidth_bytes_per_s": 9},
                   "e": {}},
  "nodes": [{"count": 2, "devices": [{"type": "d", "count": 2}, {"type": "e", "count": 1}],
             "link": {"bandwidth_bytes_per_s": 5, "latency_ns": 3}}],
  "network": {"bandwidth_bytes_per_s": 4, "latency_ns": 8},
  "links": [{"from": 0, "to": 3, "bandwidth_bytes_per_s": null, "latency_ns": 1}]})";

const char* const good_plan = R"({"schema": "pipeplan.plan/1", "model": "m", "profile_digest": "xxh3:0",
  "cluster": {"schema": "pipeplan.cluster/1", "name": "c", "device_types": {"d": {}},
              "nodes": [{"count": 1, "devices": [{"type": "d", "count": 1}], "link": {}}], "network": {}},
  "schedule": "1f1b", "virtual_stages": 1, "transfers": "overlapped", "recompute_mode": "fused",
  "micro_batch_size": 4, "micro_batch_count": 16, "data_parallel": 1, "global_batch": 64,
  "stages": [{"index": 0, "rank": 0, "layers": ["a", "b"], "first_layer": 0, "last_layer": 1, "devices": [0],
              "replicas": 1, "tensor_parallel": 1, "recompute": []}],
  "objective": {"name": "slowest-stage", "value_ns": 2, "lower_bound_ns": 2, "trivial_bound_ns": 1,
                "gap_fraction": 0.0, "optimal": true},
  "prediction": {"iteration_ns": null, "bubble_fraction": 0.5, "peak_memory_bytes": [0], "transfer_bytes": []},
  "settings": {"seed": 0, "optimizer": "adam", "algorithm": "chain-dp", "state_bytes_per_parameter_byte": null},
  "pipeplan_version": "0"})";

const char* const good_wide_plan = R"({"schema": "pipeplan.plan/1", "model": "m", "profile_digest": "xxh3:0",
  "cluster": {"schema": "pipeplan.cluster/1", "name": "c", "device_types": {"d": {}},
              "nodes": [{"count": 1, "devices": [{"type": "d", "count": 4}], "link": {}}], "network": {}},
  "schedule": "1f1b", "virtual_stages": 2, "transfers": "overlapped", "recompute_mode": "early",
  "micro_batch_size": 4, "micro_batch_count": 8, "data_parallel": 2, "global_batch": 64,
  "stages": [{"index": 0, "rank": 0, "layers": ["a", "b"], "first_layer": 0, "last_layer": 1,
              "devices": [0, 1, 2, 3], "replicas": 2, "tensor_parallel": 1, "recompute": ["a", "b"]},
             {"index": 1, "rank": 0, "layers": ["c"], "first_layer": 2, "last_layer": 2,
              "devices": [0, 1, 2, 3], "replicas": 2, "tensor_parallel": 1, "recompute": []}],
  "objective": {"name": "slowest-stage", "value_ns": 2, "lower_bound_ns": 2, "trivial_bound_ns": 1,
                "gap_fraction": 0.0, "optimal": true},
  "prediction": {"iteration_ns": null, "bubble_fraction": 0.5, "peak_memory_bytes": [0, 0],
                 "transfer_bytes": [1]},
  "settings": {"seed": 0, "optimizer": "adam", "algorithm": "chain-dp", "state_bytes_per_parameter_byte": null},
  "pipeplan_version": "0"})";

}  // namespace

TEST_CASE("schema: the profile schema and the profile reader refuse the same documents") {
  const PublishedSchema schema("profile.schema.json");
  const BeyondSchema beyond = [](const Error& error) {
    return says(error, {"wanted ascending sizes", "which is no layer", "already the name", "leads backward",
                        "cycle", "both lead", "add up to"});
  };
  for (const char* good : {good_profile, good_mlp_profile}) {
    const Agreement agreement = compare(schema, parsed(good), read_profile, beyond);
    CHECK(agreement.accepted > 25);
    CHECK(agreement.refused > 200);
  }
}

TEST_CASE("schema: the cluster schema and the cluster reader refuse the same documents") {
  const PublishedSchema schema("cluster.schema.json");
  // A fault that a schema cannot see: an unknown name, a sum, a relation, or a device number past the last
  // device.
  const BeyondSchema beyond = [](const Error& error) {
    return says(error,
                {"not among device_types", "wanted at most memory_bytes", "the device the link starts from",
                 "have more than 65536 devices", "have a link already", "which is not in the cluster"});
  };
  const Agreement agreement = compare(schema, parsed(good_cluster), read_cluster_json, beyond);
  CHECK(agreement.accepted > 50);
  CHECK(agreement.refused > 200);
}

TEST_CASE("schema: what profiles and clusters are written as is what their schemas want") {
  const PublishedSchema cluster_schema("cluster.schema.json");
  for (const std::string& name : cluster_names())
    CHECK(cluster_schema.accepts(to_json(*named_cluster(name))));
  CHECK(cluster_schema.accepts(to_json(ideal_cluster(3))));
  const PublishedSchema profile_schema("profile.schema.json");
  for (const char* good : {good_profile, good_mlp_profile})
    CHECK(profile_schema.accepts(to_json(read_profile(parsed(good)).value())));
}

TEST_CASE("schema: the plan schema and the plan reader refuse the same documents") {
  const PublishedSchema schema("plan.schema.json");
  // A fault that a schema cannot see: how counts, layers, ranks, devices, bounds and the cluster's parts fit
  // together.
  const BeyondSchema beyond = [](const Error& error) {
    return says(error, {"the stage lists",        "but value and lower bound give",
                        "but micro-batch size",   "more than value_ns",
                        "are in no stage",        "are in earlier stages",
                        "not among device_types", "is not in the cluster",
                        "entries, wanted",        ", wanted 0",
                        "cannot be shared out",   "are on ranks",
                        "by virtual_stages",      "wanted a divisor of",
                        "replicas times",         "and again stage",
                        "are not those of",       "which is not in stage",
                        "wanted each layer once", "have more than 65536 devices"}) ||
           (error.where.ends_with("/index") && error.message.find("wanted 1") != std::string::npos);
  };
  for (const char* good : {good_plan, good_wide_plan}) {
    const Agreement agreement = compare(
        schema, parsed(good), [](const Json& json) { return plan_from_json(json, "plan.json"); }, beyond);
    CHECK(agreement.accepted > 25);
    CHECK(agreement.refused > 200);
  }
}

}  // namespace pipeplan
