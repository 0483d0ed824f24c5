// The published JSON Schemas of profiles, clusters and plans against their readers.

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "models/cluster.hpp"
#include "planner/plan.hpp"
#include "profiler/profile.hpp"
#include "tests/support/published_schema.hpp"

namespace pipeplan {
namespace {

using test::Agreement;
using test::compare;
using test::error_of;
using test::PublishedSchema;
using test::says;

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
  const auto beyond = [](const Error& error) {
    return says(error, {"wanted ascending sizes", "which is no layer", "already the name", "leads backward",
                        "cycle", "both lead", "add up to"});
  };
  for (const char* good : {good_profile, good_mlp_profile}) {
    const Agreement agreement = compare(
        schema, parsed(good), [](const Json& json) { return error_of(read_profile(json)); }, beyond);
    CHECK(agreement.accepted > 25);
    CHECK(agreement.refused > 200);
  }
}

TEST_CASE("schema: the cluster schema and the cluster reader refuse the same documents") {
  const PublishedSchema schema("cluster.schema.json");
  // A fault that a schema cannot see: an unknown name, a sum, a relation, or a device number past the last
  // device.
  const auto beyond = [](const Error& error) {
    return says(error,
                {"not among device_types", "wanted at most memory_bytes", "the device the link starts from",
                 "have more than 65536 devices", "have a link already", "which is not in the cluster"});
  };
  const Agreement agreement = compare(
      schema, parsed(good_cluster), [](const Json& json) { return error_of(read_cluster_json(json)); },
      beyond);
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
  const auto beyond = [](const Error& error) {
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
        schema, parsed(good), [](const Json& json) { return error_of(plan_from_json(json, "plan.json")); },
        beyond);
    CHECK(agreement.accepted > 25);
    CHECK(agreement.refused > 200);
  }
}

}  // namespace pipeplan
