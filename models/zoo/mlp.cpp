#include "models/zoo/mlp.hpp"

#include <string>

namespace pipeplan {
namespace {

std::int64_t linear_parameters(std::int64_t inputs, std::int64_t outputs) {
  return inputs * outputs + outputs;
}

Layer linear_layer(std::string name, std::int64_t inputs, std::int64_t outputs) {
  return {.name = std::move(name),
          .kind = "linear",
          .parameter_count = linear_parameters(inputs, outputs),
          .runnable = LayerSpec{.kind = LayerKind::linear, .inputs = inputs, .outputs = outputs}};
}

Layer relu_layer(std::string name, std::int64_t width) {
  return {.name = std::move(name),
          .kind = "relu",
          .runnable = LayerSpec{.kind = LayerKind::relu, .inputs = width, .outputs = width}};
}

Layer loss_layer(std::int64_t inputs) {
  return {.name = "loss",
          .kind = "mean_squared_error",
          .runnable = LayerSpec{.kind = LayerKind::mean_squared_error, .inputs = inputs}};
}

}  // namespace

Result<ModelGraph> build_mlp(const MlpSpec& spec) {
  PerId<LayerId, Layer> layers;
  for (std::int64_t i = 0; i < spec.layers; ++i) {
    const std::string number = std::to_string(i);
    layers.push_back(linear_layer("hidden." + number, i == 0 ? spec.inputs : spec.width, spec.width));
    layers.push_back(relu_layer("relu." + number, spec.width));
  }
  layers.push_back(linear_layer("head", spec.width, spec.outputs));
  layers.push_back(loss_layer(spec.outputs));
  return ModelGraph::make("mlp", std::move(layers), {}, "mlp");
}

std::int64_t parameter_total(const MlpSpec& spec) {
  return linear_parameters(spec.inputs, spec.width) +
         (spec.layers - 1) * linear_parameters(spec.width, spec.width) +
         linear_parameters(spec.width, spec.outputs);
}

}  // namespace pipeplan
