#include "profiler/measured_outline.hpp"

namespace pipeplan {

Profile measured_outline(const ModelGraph& model, const RunnableLayers& layers, ProfileSource source) {
  Profile profile;
  profile.model = model.name();
  profile.model_spec = model.spec();
  profile.source = std::move(source);
  profile.source.kind = "measured";
  profile.edges = model.edges();
  profile.single_order = model.has_single_order();
  for (const LayerId id : ids<LayerId>(layers.size())) {
    const Layer& layer = model.layers()[id];
    profile.layers.push_back({.name = layer.name,
                              .kind = layer.kind,
                              .parameter_count = layer.parameter_count,
                              .parameter_bytes = layer_bytes(*layers[id.index()], 1).parameter,
                              .recomputable = !is_loss(*layer.runnable),
                              .costs = {}});
  }
  return profile;
}

LayerCost layer_sizes(const RunnableLayer<float>& layer, std::int64_t batch) {
  const LayerBytes bytes = layer_bytes(layer, batch);
  return {.micro_batch_size = batch,
          .activation = bytes.activation,
          .workspace = bytes.workspace,
          .output = bytes.output,
          .input = bytes.input,
          .deferred = bytes.deferred};
}

}  // namespace pipeplan
