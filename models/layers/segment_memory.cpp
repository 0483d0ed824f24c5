// What a segment takes, read off its layers: the same numbers size its buffers, its arena and a profile.

#include <algorithm>

#include "models/layers/segment.hpp"

namespace pipeplan {
namespace {

Bytes float_bytes(std::int64_t count) {
  return arena_bytes(Bytes{count * static_cast<std::int64_t>(sizeof(float))});
}

std::int64_t layer_workspace_count(const RunnableLayer<float>& layer, std::int64_t batch) {
  return aligned_count<float>(layer.output_count(batch)) + aligned_count<float>(layer.input_count(batch)) +
         aligned_count<float>(layer.deferred_count(batch)) + aligned_count<float>(layer.scratch_count(batch));
}

std::int64_t layer_split_count(const RunnableLayer<float>& layer, std::int64_t batch) {
  if (layer.parameter_buffer_count() == 0) return 0;
  return aligned_count<float>(layer.output_count(batch)) + aligned_count<float>(layer.deferred_count(batch));
}

}  // namespace

LayerBytes layer_bytes(const RunnableLayer<float>& layer, std::int64_t batch) {
  return {.parameter = float_bytes(layer.parameter_buffer_count()),
          .activation = float_bytes(layer.stash_count(batch)),
          .workspace = float_bytes(layer_workspace_count(layer, batch)),
          .deferred = float_bytes(layer_split_count(layer, batch)),
          .output = float_bytes(layer.output_count(batch)),
          .input = float_bytes(layer.input_count(batch))};
}

bool SegmentSpec::is_recomputed(std::size_t layer) const { return !recomputed.empty() && recomputed[layer]; }

bool SegmentSpec::begins_run(std::size_t layer) const {
  return is_recomputed(layer) && (layer == 0 || !is_recomputed(layer - 1));
}

std::int64_t SegmentSpec::kept_count(std::size_t layer) const {
  if (!is_recomputed(layer)) return layers[layer]->stash_count(batch);
  return begins_run(layer) ? layers[layer]->input_count(batch) : 0;
}

std::int64_t SegmentSpec::split_count(std::size_t layer) const {
  return layer_split_count(*layers[layer], batch);
}

std::int64_t SegmentSpec::workspace_count() const {
  std::int64_t largest = 0;
  for (const auto& layer : layers) largest = std::max(largest, layer_workspace_count(*layer, batch));
  return largest;
}

MemoryUse segment_memory(const SegmentSpec& spec, std::int64_t in_flight, std::int64_t split_in_flight) {
  MemoryUse use;
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    const LayerBytes bytes = layer_bytes(*spec.layers[i], spec.batch);
    use[MemoryItem::weights] += bytes.parameter;
    use[MemoryItem::gradients] += bytes.parameter;
    use[MemoryItem::optimizer_state] += bytes.parameter * state_buffer_count(spec.optimizer);
    if (spec.is_recomputed(i)) use[MemoryItem::activations] += bytes.activation;
    use[MemoryItem::activations] += float_bytes(spec.kept_count(i)) * in_flight;
    use[MemoryItem::activations] += bytes.deferred * split_in_flight;
  }
  use[MemoryItem::workspace] = float_bytes(spec.workspace_count());
  return use;
}

}  // namespace pipeplan
