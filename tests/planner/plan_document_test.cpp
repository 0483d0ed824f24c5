#include <doctest/doctest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "planner/infeasible.hpp"
#include "planner/planner.hpp"
#include "tests/planner/instances.hpp"

using namespace pipeplan;
using namespace pipeplan::test;

namespace {

Plan sample_plan() {
  DeviceType device;
  device.memory = Bytes{5000};
  const Profile profile =
      chain_profile({{4, 5, 6, 7, 8, 9}, {1, 2, 3, 4, 5, 6}, {3, 3, 3, 3, 3, 3}, {9, 9, 9, 9, 9, 9}});
  PlanOptions options;
  options.micro_batch_count = 6;
  auto answer = make_plan(profile, cluster_of({device, device, device}), options);
  REQUIRE(answer);
  REQUIRE(answer->outcome == PlanOutcome::planned);
  return answer->plan;
}

// Two stages on each of two ranks, two replicas in two copies, and two recomputed layers.
Plan wide_plan() {
  Plan plan;
  plan.model = "wide";
  plan.profile_digest = "xxh3:0";
  plan.cluster = ideal_cluster(8);
  plan.micro_batch_size = 4;
  plan.micro_batch_count = 3;
  plan.data_parallel = 2;
  plan.recompute_mode = RecomputeMode::early;
  plan.layer_names = {"a0", "a1", "b", "c", "d"};
  const std::vector<DeviceId> left{DeviceId{0}, DeviceId{1}, DeviceId{4}, DeviceId{5}};
  const std::vector<DeviceId> right{DeviceId{2}, DeviceId{3}, DeviceId{6}, DeviceId{7}};
  plan.stages.push_back({LayerId{0}, LayerId{1}, RankId{0}, left, 2, {LayerId{0}, LayerId{1}}});
  plan.stages.push_back({LayerId{2}, LayerId{2}, RankId{1}, right, 2, {}});
  plan.stages.push_back({LayerId{3}, LayerId{3}, RankId{0}, left, 2, {}});
  plan.stages.push_back({LayerId{4}, LayerId{4}, RankId{1}, right, 2, {}});
  plan.prediction.peak_memory.resize(4);
  plan.prediction.transfer.resize(3);
  return plan;
}

std::string refusal_of(Json json, const std::function<void(Json&)>& damage) {
  damage(json);
  const auto plan = plan_from_json(json, "plan.json");
  return plan ? "accepted" : plan.error().where + ": " + plan.error().message;
}

std::string refusal(const std::function<void(Json&)>& damage) {
  return refusal_of(to_json(sample_plan()), damage);
}

std::string wide_refusal(const std::function<void(Json&)>& damage) {
  return refusal_of(to_json(wide_plan()), damage);
}

}  // namespace

TEST_CASE("plan document: writing and reading give an equal plan") {
  Plan plan = sample_plan();
  CHECK(*plan_from_json(to_json(plan), "plan.json") == plan);
  plan.prediction.iteration = Nanoseconds{123456};
  plan.prediction.bubble_fraction = 3.0 / 11;
  plan.state = {OptimizerRule::adam, 2.5};
  plan.schedule = ScheduleKind::gpipe;
  plan.transfers = TransferMode::ignored;
  plan.objective.lower_bound = plan.objective.value - Nanoseconds{3};
  const auto parsed = parse_json(document_text(to_json(plan)), "plan.json");
  REQUIRE(parsed);
  CHECK(*plan_from_json(*parsed, "plan.json") == plan);
}

TEST_CASE("plan document: the keys stand in the documented order") {
  const Json json = to_json(sample_plan());
  std::string keys;
  for (const auto& entry : json.items()) keys += entry.key() + " ";
  CHECK(
      keys ==
      "schema model profile_digest cluster schedule virtual_stages transfers recompute_mode micro_batch_size "
      "micro_batch_count data_parallel global_batch stages objective prediction settings pipeplan_version ");
  CHECK(json["stages"][2]["layers"] == Json::array({"l3"}));
  CHECK(json["prediction"]["iteration_ns"].is_null());
  CHECK(json["prediction"]["bubble_fraction"].is_null());
}

TEST_CASE("plan document: a comment may stand in any object") {
  CHECK(refusal([](Json& json) { json["stages"][0]["comment"] = "embedding"; }) == "accepted");
}

TEST_CASE("plan document: lost, doubled and misnumbered layers are named") {
  CHECK(refusal([](Json& json) {
          json["stages"][1]["first_layer"] = 3;
          json["stages"][1]["last_layer"] = 3;
        }) == "plan.json#/stages/1/first_layer: is 3: layers 2 to 2 are in no stage");
  CHECK(refusal([](Json& json) { json["stages"][1]["layers"] = {"l1"}; }) ==
        "plan.json#/stages/1/layers: layer 'l1' is in stage 0 and again in stage 1");
  CHECK(refusal([](Json& json) { json["stages"][1]["first_layer"] = 1; }) ==
        "plan.json#/stages/1/first_layer: is 1, but layers up to 1 are in earlier stages");
  CHECK(refusal([](Json& json) { json["stages"][0]["layers"].push_back("l9"); }) ==
        "plan.json#/stages/0/last_layer: is 1, wanted 2: the stage lists 3 layers from layer 0 on");
  CHECK(refusal([](Json& json) { json["stages"][0]["layers"] = Json::array(); }) ==
        "plan.json#/stages/0/layers: is empty: stage 0 has no layer");
  CHECK(refusal([](Json& json) { json["stages"] = Json::array(); }) ==
        "plan.json#/stages: is empty, wanted at least one stage");
}

TEST_CASE("plan document: stages out of place are refused") {
  CHECK(refusal([](Json& json) { json["stages"][1]["index"] = 2; }) ==
        "plan.json#/stages/1/index: is 2, wanted 1");
  CHECK(refusal([](Json& json) { json["stages"][1]["devices"] = {0}; }) ==
        "plan.json#/stages/1/devices: device 0 runs stage 0 and again stage 1");
  CHECK(refusal([](Json& json) { json["stages"][1]["devices"] = {3}; }) ==
        "plan.json#/stages/1/devices: device 3 is not in the cluster, which has 3");
}

TEST_CASE("plan document: replicas, copies, several stages per rank and recomputation are read as written") {
  const Plan plan = wide_plan();
  const Json json = to_json(plan);
  CHECK(json["virtual_stages"].get<std::int64_t>() == 2);
  CHECK(json["data_parallel"].get<std::int64_t>() == 2);
  CHECK(json["global_batch"].get<std::int64_t>() == 4 * 3 * 2);
  CHECK(json["recompute_mode"].get<std::string>() == "early");
  CHECK(
      json["stages"][2].dump() ==
      R"({"index":2,"rank":0,"layers":["c"],"first_layer":3,"last_layer":3,"devices":[0,1,4,5],"replicas":2,)"
      R"("tensor_parallel":1,"recompute":[]})");
  CHECK(json["stages"][0]["recompute"].dump() == R"(["a0","a1"])");
  const auto parsed = parse_json(document_text(json), "plan.json");
  REQUIRE(parsed);
  const auto read = plan_from_json(*parsed, "plan.json");
  REQUIRE(read);
  CHECK(*read == plan);
  CHECK(read->rank_count() == 2);
  CHECK(read->virtual_stages() == 2);
}

TEST_CASE("plan document: ranks with unequal numbers of stages are refused") {
  CHECK(wide_refusal([](Json& json) { json["virtual_stages"] = 3; }) ==
        "plan.json#/virtual_stages: is 3, but 4 stages cannot be shared out 3 to a rank");
  CHECK(wide_refusal([](Json& json) { json["virtual_stages"] = 4; }) ==
        "plan.json#/stages/1/rank: is 1, but 4 stages, 4 to a rank, are on ranks 0 to 0");
  CHECK(wide_refusal([](Json& json) {
          json["stages"][3]["rank"] = 0;
          json["stages"][3]["devices"] = {0, 1, 4, 5};
        }) == "plan.json#/stages/3/rank: is 0, but rank 0 has its 2 already, by virtual_stages");
}

TEST_CASE("plan document: stages of one rank have the same devices, those of others different ones") {
  CHECK(wide_refusal([](Json& json) {
          json["stages"][2]["devices"] = {0, 1, 5, 4};
        }) == "plan.json#/stages/2/devices: are not those of stage 0, which is on rank 0 too");
  CHECK(wide_refusal([](Json& json) {
          json["stages"][1]["devices"] = {2, 3, 6, 5};
        }) == "plan.json#/stages/1/devices: device 5 runs stage 0 and again stage 1");
  CHECK(wide_refusal([](Json& json) {
          json["stages"][1]["devices"] = {2, 3, 6, 6};
        }) == "plan.json#/stages/1/devices: device 6 runs stage 1 and again stage 1");
  CHECK(wide_refusal([](Json& json) {
          json["stages"][0]["devices"] = {0, 1, 4};
        }) == "plan.json#/stages/0/devices: has 3 devices, wanted 2 replicas times 2 copies");
  CHECK(wide_refusal([](Json& json) { json["stages"][0]["devices"] = Json::array(); }) ==
        "plan.json#/stages/0/devices: is empty, wanted at least one device");
}

TEST_CASE("plan document: replicas divide the micro-batch") {
  CHECK(wide_refusal([](Json& json) { json["stages"][0]["replicas"] = 3; }) ==
        "plan.json#/stages/0/replicas: is 3, wanted a divisor of micro_batch_size, which is 4");
}

TEST_CASE("plan document: recomputed layers are layers of the stage, each once, in order") {
  CHECK(wide_refusal([](Json& json) { json["stages"][0]["recompute"] = {"b"}; }) ==
        "plan.json#/stages/0/recompute: lists 'b', which is not in stage 0");
  CHECK(wide_refusal([](Json& json) { json["stages"][1]["recompute"] = {"a1"}; }) ==
        "plan.json#/stages/1/recompute: lists 'a1', which is not in stage 1");
  CHECK(wide_refusal([](Json& json) {
          json["stages"][0]["recompute"] = {"a1", "a0"};
        }) == "plan.json#/stages/0/recompute: lists 'a0' after 'a1', wanted each layer once, in order");
  CHECK(wide_refusal([](Json& json) {
          json["stages"][0]["recompute"] = {"a1", "a1"};
        }) == "plan.json#/stages/0/recompute: lists 'a1' after 'a1', wanted each layer once, in order");
  CHECK(wide_refusal([](Json& json) { json["stages"][0]["recompute"] = {""}; }) ==
        "plan.json#/stages/0/recompute: has an empty name, wanted at least one character");
}

TEST_CASE("plan document: what this version cannot do is refused by its value") {
  CHECK(refusal([](Json& json) { json["stages"][0]["tensor_parallel"] = 8; }) ==
        "plan.json#/stages/0/tensor_parallel: is 8, but this version of pipeplan only does 1");
  CHECK(refusal([](Json& json) { json["recompute_mode"] = "late"; }) ==
        "plan.json#/recompute_mode: is 'late', wanted one of fused, early");
  CHECK(refusal([](Json& json) { json["schedule"] = "1f1B"; }) ==
        "plan.json#/schedule: is '1f1B', wanted one of naive, gpipe, 1f1b");
}

TEST_CASE("plan document: numbers that contradict each other are refused") {
  CHECK(refusal([](Json& json) { json["global_batch"] = 7; }) ==
        "plan.json#/global_batch: is 7, but micro-batch size 1 times count 6 is 6");
  CHECK(refusal([](Json& json) { json["data_parallel"] = 4; }) ==
        "plan.json#/global_batch: is 6, but micro-batch size 1 times count 6 times 4 copies is 24");
  CHECK(refusal([](Json& json) { json["objective"]["optimal"] = false; }) ==
        "plan.json#/objective/optimal: is false, but the value is 18 and its lower bound 18");
  CHECK(refusal([](Json& json) { json["objective"]["gap_fraction"] = 0.5; }) ==
        "plan.json#/objective/gap_fraction: is 0.5, but value and lower bound give 0");
  CHECK(refusal([](Json& json) { json["objective"]["lower_bound_ns"] = 19; }) ==
        "plan.json#/objective/lower_bound_ns: is 19, more than value_ns, which is 18");
  CHECK(refusal([](Json& json) { json["objective"]["name"] = "iteration"; }) ==
        "plan.json#/objective/name: is 'iteration', wanted 'slowest-stage'");
  CHECK(refusal([](Json& json) { json["prediction"]["peak_memory_bytes"].push_back(1); }) ==
        "plan.json#/prediction/peak_memory_bytes: has 4 entries, wanted 3");
  CHECK(refusal([](Json& json) { json["prediction"]["transfer_bytes"].push_back(1); }) ==
        "plan.json#/prediction/transfer_bytes: has 3 entries, wanted 2");
}

TEST_CASE("plan document: no key of the document may be left out") {
  const Json whole = to_json(sample_plan());
  for (const auto& entry : whole.items()) {
    INFO("without ", entry.key());
    const std::string answer = refusal([&](Json& json) { json.erase(entry.key()); });
    CHECK(answer.find("plan.json#/" + entry.key()) == 0);
  }
  for (const auto& entry : whole["stages"][1].items()) {
    INFO("without ", entry.key());
    const std::string answer = refusal([&](Json& json) { json["stages"][1].erase(entry.key()); });
    CHECK(answer.find("plan.json#/stages/1/") == 0);
  }
}

TEST_CASE("plan document: unknown keys, other schemas and wrong kinds of values are refused") {
  CHECK(refusal([](Json& json) { json["schema"] = "pipeplan.plan/2"; }) ==
        "plan.json#/schema: is 'pipeplan.plan/2', wanted 'pipeplan.plan/1'");
  CHECK(refusal([](Json& json) { json["stages"][0]["replica"] = 1; }) ==
        "plan.json#/stages/0/replica: unknown key 'replica'");
  CHECK(refusal([](Json& json) { json["settings"]["state_bytes_per_parameter_byte"] = 100; }) ==
        "plan.json#/settings/state_bytes_per_parameter_byte: is 100, wanted a number from 0 to 64");
  CHECK(refusal([](Json& json) { json["micro_batch_count"] = 0; }) ==
        "plan.json#/micro_batch_count: is 0, wanted at least 1");
  CHECK(refusal([](Json& json) { json["stages"][0]["layers"][0] = 5; }) ==
        "plan.json#/stages/0/layers/0: is 5, wanted a string");
  CHECK(refusal([](Json& json) { json = Json::array(); }) ==
        "plan.json#: is an array of 0, wanted an object");
}

TEST_CASE("infeasible document: names the stage, its layers, what it needs and what would do") {
  const Profile profile = chain_profile({{.activation = 7}, {.activation = 2}, {.activation = 1}});
  DeviceType device;
  device.memory = Bytes{10};
  PlanOptions options;
  options.micro_batch_count = 2;
  const auto answer = make_plan(profile, cluster_of({device, device}), options);
  REQUIRE(answer);
  REQUIRE(answer->outcome == PlanOutcome::infeasible);
  const Json json = infeasible_json(answer->infeasible, profile);
  CHECK(
      json.dump() ==
      R"({"schema":"pipeplan.infeasible/1","model":"chain","stage_count":2,"tightest_stage":{"index":0,)"
      R"("layers":["l0"],"first_layer":0,"last_layer":0,"needed_bytes":14,"needed_items_bytes":{"weights":0,)"
      R"("gradients":0,"optimizer_state":0,"activations":14,"workspace":0,"communication":0,"reserved":0},)"
      R"("limit_bytes":10},"smallest_memory_bytes":14})");
}
