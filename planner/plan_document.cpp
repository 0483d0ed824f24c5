// Writes the document pipeplan.plan/1; plan_reader.cpp reads it.

#include <nlohmann/json.hpp>

#include "models/base/version.hpp"
#include "planner/plan.hpp"

namespace pipeplan {
namespace {

Json stage_json(const Plan& plan, StageId index) {
  const StagePlan& stage = plan.stages[index];
  Json layers = Json::array();
  for (LayerId layer = stage.first; layer <= stage.last; layer = layer.next())
    layers.push_back(plan.layer_names[layer]);
  Json devices = Json::array();
  for (const DeviceId device : stage.devices) devices.push_back(device.value);
  Json recomputed = Json::array();
  for (const LayerId layer : stage.recompute) recomputed.push_back(plan.layer_names[layer]);
  return Json{{"index", index.value},
              {"rank", stage.rank.value},
              {"layers", std::move(layers)},
              {"first_layer", stage.first.value},
              {"last_layer", stage.last.value},
              {"devices", std::move(devices)},
              {"replicas", stage.replicas},
              {"tensor_parallel", 1},
              {"recompute", std::move(recomputed)}};
}

Json objective_json(const Objective& objective) {
  return Json{{"name", objective.name},
              {"value_ns", objective.value.count()},
              {"lower_bound_ns", objective.lower_bound.count()},
              {"trivial_bound_ns", objective.trivial_bound.count()},
              {"gap_fraction", objective.gap_fraction()},
              {"optimal", objective.optimal()}};
}

Json bytes_json(const std::vector<Bytes>& sizes) {
  Json items = Json::array();
  for (const Bytes bytes : sizes) items.push_back(bytes.value);
  return items;
}

Json prediction_json(const Prediction& prediction) {
  Json json{{"iteration_ns", nullptr}, {"bubble_fraction", nullptr}};
  if (prediction.iteration) json["iteration_ns"] = prediction.iteration->count();
  if (prediction.bubble_fraction) json["bubble_fraction"] = *prediction.bubble_fraction;
  json["peak_memory_bytes"] = bytes_json(prediction.peak_memory);
  json["transfer_bytes"] = bytes_json(prediction.transfer);
  return json;
}

Json settings_json(const Plan& plan) {
  Json json{{"seed", 0},
            {"optimizer", spelt(plan.state.optimizer)},
            {"algorithm", plan.algorithm},
            {"state_bytes_per_parameter_byte", nullptr}};
  if (plan.state.total_factor) json["state_bytes_per_parameter_byte"] = *plan.state.total_factor;
  return json;
}

}  // namespace

Json to_json(const Plan& plan) {
  Json stages = Json::array();
  for (const StageId stage : ids<StageId>(plan.stages.size())) stages.push_back(stage_json(plan, stage));
  return Json{{"schema", "pipeplan.plan/1"},
              {"model", plan.model},
              {"profile_digest", plan.profile_digest},
              {"cluster", to_json(plan.cluster)},
              {"schedule", spelt(plan.schedule)},
              {"virtual_stages", plan.virtual_stages()},
              {"transfers", spelt(plan.transfers)},
              {"recompute_mode", spelt(plan.recompute_mode)},
              {"micro_batch_size", plan.micro_batch_size},
              {"micro_batch_count", plan.micro_batch_count},
              {"data_parallel", plan.data_parallel},
              {"global_batch", plan.global_batch()},
              {"stages", std::move(stages)},
              {"objective", objective_json(plan.objective)},
              {"prediction", prediction_json(plan.prediction)},
              {"settings", settings_json(plan)},
              {"pipeplan_version", version()}};
}

}  // namespace pipeplan
