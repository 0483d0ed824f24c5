#include "executor/training_digest.hpp"

#include <nlohmann/json.hpp>

#include "models/base/digest.hpp"

namespace pipeplan {
namespace {

Json layer_json(const LayerSpec& spec) {
  Json inner = Json::array();
  for (const LayerSpec& layer : spec.inner) inner.push_back(layer_json(layer));
  return {{"kind", spelt(spec.kind)}, {"rows", spec.rows_per_sample}, {"inputs", spec.inputs},
          {"outputs", spec.outputs},  {"heads", spec.heads},          {"vocabulary", spec.vocabulary},
          {"inner", std::move(inner)}};
}

Json model_json(const ModelGraph& model) {
  Json layers = Json::array();
  for (const Layer& layer : model.layers()) {
    Json entry{{"name", layer.name}};
    if (layer.runnable) entry["spec"] = layer_json(*layer.runnable);
    layers.push_back(std::move(entry));
  }
  return layers;
}

Json optimizer_json(const Optimizer& optimizer) {
  return {{"rule", spelt(optimizer.rule)},  {"learning_rate", optimizer.learning_rate},
          {"momentum", optimizer.momentum}, {"beta1", optimizer.beta1},
          {"beta2", optimizer.beta2},       {"epsilon", optimizer.epsilon}};
}

}  // namespace

std::string training_digest(const ModelGraph& model, const Schedule& schedule, const Plan& plan,
                            const ExecuteOptions& options) {
  Json replicas = Json::array();
  for (const StagePlan& stage : plan.stages) replicas.push_back(stage.replicas);
  return digest({{"layers", model_json(model)},
                 {"stage_sizes", stage_sizes(plan)},
                 {"replicas", std::move(replicas)},
                 {"data_parallel", plan.data_parallel},
                 {"micro_batch_size", plan.micro_batch_size},
                 {"order", digest(to_json(schedule)["ranks"])},
                 {"seed", options.seed},
                 {"optimizer", optimizer_json(options.optimizer)}});
}

}  // namespace pipeplan
