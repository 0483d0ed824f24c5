// Reads the document pipeplan.plan/1 and refuses what contradicts itself or what this version cannot do.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "models/base/json_reader.hpp"
#include "planner/cost.hpp"
#include "planner/plan.hpp"

namespace pipeplan {
namespace {

// Fields of the document that this version knows in one value only.
void expect_one(ObjectReader& object, const std::string& key) {
  const std::int64_t value = object.integer(key, 1);
  if (value != 1) object.fail(key, fmt::format("is {}, but this version of pipeplan only does 1", value));
}

std::int32_t small_integer(ObjectReader& object, const std::string& key) {
  return static_cast<std::int32_t>(object.integer(key, 0, std::numeric_limits<std::int32_t>::max()));
}

// What the stages read so far have taken.
struct Taken {
  std::map<std::string, std::int64_t> layers;  // name to stage
  std::map<std::int64_t, std::int64_t> devices;
};

void take_names(ObjectReader& object, Plan& plan, const std::vector<std::string>& names, Taken& taken) {
  const auto index = static_cast<std::int64_t>(plan.stages.size());
  if (names.empty()) object.fail("layers", fmt::format("is empty: stage {} has no layer", index));
  for (const std::string& name : names) {
    if (name.empty()) object.fail("layers", "has an empty name, wanted at least one character");
    const auto [place, is_new] = taken.layers.emplace(name, index);
    if (!is_new)
      object.fail("layers",
                  fmt::format("layer '{}' is in stage {} and again in stage {}", name, place->second, index));
    plan.layer_names.push_back(name);
  }
}

// `next` is the first layer that no earlier stage has.
void check_range(ObjectReader& object, const StagePlan& stage, std::int64_t next, std::int64_t layers) {
  const std::int64_t first = stage.first.value;
  if (first > next)
    object.fail("first_layer", fmt::format("is {}: layers {} to {} are in no stage", first, next, first - 1));
  if (first < next)
    object.fail("first_layer",
                fmt::format("is {}, but layers up to {} are in earlier stages", first, next - 1));
  if (stage.last.value - first + 1 != layers)
    object.fail("last_layer", fmt::format("is {}, wanted {}: the stage lists {} layers from layer {} on",
                                          stage.last.value, first + layers - 1, layers, first));
}

void read_stage_layers(ObjectReader& object, Plan& plan, StagePlan& stage, Taken& taken) {
  const auto next = static_cast<std::int64_t>(plan.layer_names.size());
  const std::vector<std::string> names = object.texts("layers");
  take_names(object, plan, names, taken);
  stage.first.value = small_integer(object, "first_layer");
  stage.last.value = small_integer(object, "last_layer");
  check_range(object, stage, next, static_cast<std::int64_t>(names.size()));
}

void read_stage_device(ObjectReader& object, const Plan& plan, StagePlan& stage, Taken& taken) {
  const auto index = static_cast<std::int64_t>(plan.stages.size());
  const std::vector<std::int64_t> devices = object.integers("devices");
  if (devices.size() != 1) {
    object.fail("devices", fmt::format("has {} devices, but this version of pipeplan runs a stage on 1",
                                       devices.size()));
    return;
  }
  const std::int64_t device = devices.front();
  if (device >= plan.cluster.device_count()) {
    object.fail("devices", fmt::format("device {} is not in the cluster, which has {}", device,
                                       plan.cluster.device_count()));
    return;
  }
  const auto [place, is_new] = taken.devices.emplace(device, index);
  if (!is_new)
    object.fail("devices",
                fmt::format("device {} runs stage {} and again stage {}", device, place->second, index));
  stage.device.value = static_cast<std::int32_t>(device);
}

void expect_position(ObjectReader& object, const std::string& key, std::int64_t position) {
  const std::int64_t value = object.integer(key);
  if (value != position) object.fail(key, fmt::format("is {}, wanted {}", value, position));
}

StagePlan read_stage(ObjectReader& object, Plan& plan, Taken& taken) {
  StagePlan stage;
  const StageId index = plan.stages.end_id();
  expect_position(object, "index", index.value);
  expect_position(object, "rank", index.value);
  stage.rank.value = index.value;
  read_stage_layers(object, plan, stage, taken);
  read_stage_device(object, plan, stage, taken);
  expect_one(object, "replicas");
  expect_one(object, "tensor_parallel");
  if (const auto recomputed = object.texts("recompute"); !recomputed.empty())
    object.fail("recompute", fmt::format("lists '{}', but this version of pipeplan does not recompute",
                                         recomputed.front()));
  object.done();
  return stage;
}

void read_stages(ObjectReader& document, Plan& plan) {
  Taken taken;
  for (ObjectReader& object : document.objects("stages"))
    plan.stages.push_back(read_stage(object, plan, taken));
  if (plan.stages.empty()) document.fail("stages", "is empty, wanted at least one stage");
}

Objective read_objective(ObjectReader object) {
  Objective objective;
  objective.name = object.text("name");
  if (objective.name != "slowest-stage")
    object.fail("name", fmt::format("is '{}', wanted 'slowest-stage'", objective.name));
  objective.value = object.time("value_ns");
  objective.lower_bound = object.time("lower_bound_ns");
  objective.trivial_bound = object.time("trivial_bound_ns");
  if (objective.lower_bound > objective.value)
    object.fail("lower_bound_ns", fmt::format("is {}, more than value_ns, which is {}",
                                              objective.lower_bound.count(), objective.value.count()));
  const double gap = object.number("gap_fraction", 0, std::numeric_limits<double>::max());
  if (std::abs(gap - objective.gap_fraction()) > 1e-9 * std::max(1.0, gap))
    object.fail("gap_fraction",
                fmt::format("is {}, but value and lower bound give {}", gap, objective.gap_fraction()));
  const bool optimal = object.flag("optimal", objective.optimal());
  if (optimal != objective.optimal())
    object.fail("optimal", fmt::format("is {}, but the value is {} and its lower bound {}", optimal,
                                       objective.value.count(), objective.lower_bound.count()));
  object.done();
  return objective;
}

std::vector<Bytes> read_bytes(ObjectReader& object, const std::string& key, std::size_t count) {
  std::vector<Bytes> sizes;
  for (const std::int64_t bytes : object.integers(key)) sizes.push_back(Bytes{bytes});
  if (sizes.size() != count) object.fail(key, fmt::format("has {} entries, wanted {}", sizes.size(), count));
  return sizes;
}

Prediction read_prediction(ObjectReader object, std::size_t stages) {
  Prediction prediction;
  prediction.iteration = object.optional_time("iteration_ns");
  prediction.bubble_fraction = object.optional_number("bubble_fraction", 0, 1);
  prediction.peak_memory = read_bytes(object, "peak_memory_bytes", stages);
  prediction.transfer = read_bytes(object, "transfer_bytes", stages == 0 ? 0 : stages - 1);
  object.done();
  return prediction;
}

void read_settings(ObjectReader object, Plan& plan) {
  object.integer("seed");
  plan.state.optimizer = object.one_of<OptimizerRule>("optimizer");
  plan.algorithm = object.text("algorithm");
  plan.state.total_factor = object.optional_number("state_bytes_per_parameter_byte", 0, largest_state_factor);
  object.done();
}

void read_batch(ObjectReader& document, Plan& plan) {
  plan.micro_batch_size = document.integer("micro_batch_size", 1);
  plan.micro_batch_count = document.integer("micro_batch_count", 1);
  expect_one(document, "data_parallel");
  const std::int64_t batch = document.integer("global_batch", 1);
  const auto product =
      checked_product(plan.micro_batch_size, plan.micro_batch_count, largest_document_integer);
  if (product != batch)
    document.fail("global_batch", fmt::format("is {}, but micro-batch size {} times count {} is {}", batch,
                                              plan.micro_batch_size, plan.micro_batch_count,
                                              product ? fmt::format("{}", *product) : "out of range"));
}

void read_recompute_mode(ObjectReader& document) {
  const std::string mode = document.text("recompute_mode");
  if (mode != "fused") document.fail("recompute_mode", fmt::format("is '{}', wanted 'fused'", mode));
}

}  // namespace

Result<Plan> plan_from_json(const Json& json, const std::string& source) {
  JsonSource errors(source);
  ObjectReader document(errors, json, "");
  Plan plan;
  document.expect_schema("pipeplan.plan/1");
  plan.model = document.text("model");
  plan.profile_digest = document.text("profile_digest");
  plan.cluster = read_cluster(document.object("cluster"));
  plan.schedule = document.one_of<ScheduleKind>("schedule");
  expect_one(document, "virtual_stages");
  plan.transfers = document.one_of<TransferMode>("transfers");
  read_recompute_mode(document);
  read_batch(document, plan);
  if (!errors.failed()) read_stages(document, plan);
  if (!errors.failed()) {
    plan.objective = read_objective(document.object("objective"));
    plan.prediction = read_prediction(document.object("prediction"), plan.stages.size());
    read_settings(document.object("settings"), plan);
    document.text("pipeplan_version");
    document.done();
  }
  return errors.result(std::move(plan));
}

Result<Plan> read_plan_file(const std::string& path) {
  PIPEPLAN_TRY(json, read_json_file(path));
  return plan_from_json(json, source_name(path));
}

}  // namespace pipeplan
