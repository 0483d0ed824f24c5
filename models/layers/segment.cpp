#include "models/layers/segment.hpp"

#include <algorithm>

#include "models/base/assert.hpp"
#include "models/layers/initial_values.hpp"

namespace pipeplan {
namespace {

Bytes float_bytes(std::int64_t count) {
  return arena_bytes(Bytes{count * static_cast<std::int64_t>(sizeof(float))});
}

std::int64_t workspace_count(const RunnableLayer<float>& layer, std::int64_t batch) {
  return aligned_count<float>(layer.output_count(batch)) + aligned_count<float>(layer.input_count(batch)) +
         aligned_count<float>(layer.deferred_count(batch)) + aligned_count<float>(layer.scratch_count(batch));
}

std::int64_t largest_workspace(std::span<const std::unique_ptr<RunnableLayer<float>>> layers,
                               std::int64_t batch) {
  std::int64_t largest = 0;
  for (const auto& layer : layers) largest = std::max(largest, workspace_count(*layer, batch));
  return largest;
}

std::span<float> span_of(float* begin, std::int64_t count) {
  return {begin, static_cast<std::size_t>(count)};
}

}  // namespace

LayerBytes layer_bytes(const RunnableLayer<float>& layer, std::int64_t batch) {
  return {.parameter = float_bytes(layer.parameter_buffer_count()),
          .activation = float_bytes(layer.stash_count(batch)),
          .workspace = float_bytes(workspace_count(layer, batch)),
          .output = float_bytes(layer.output_count(batch)),
          .input = float_bytes(layer.input_count(batch))};
}

Result<std::vector<std::unique_ptr<RunnableLayer<float>>>> runnable_layers(const ModelGraph& model) {
  std::vector<std::unique_ptr<RunnableLayer<float>>> layers;
  for (const Layer& layer : model.layers()) {
    if (!layer.runnable)
      return bad_input(model.name(), "layer '" + layer.name + "' has no runnable form",
                       "only networks built by pipeplan's own zoo can be run");
    PIPEPLAN_TRY(made, make_layer<float>(*layer.runnable, layer.name));
    layers.push_back(std::move(made));
  }
  return layers;
}

MemoryUse segment_memory(std::span<const std::unique_ptr<RunnableLayer<float>>> layers, std::int64_t batch,
                         std::int64_t in_flight) {
  MemoryUse use;
  for (const auto& layer : layers) {
    const LayerBytes bytes = layer_bytes(*layer, batch);
    use[MemoryItem::weights] += bytes.parameter;
    use[MemoryItem::gradients] += bytes.parameter;
    use[MemoryItem::activations] += bytes.activation * in_flight;
    use[MemoryItem::workspace] = std::max(use[MemoryItem::workspace], bytes.workspace);
  }
  return use;
}

Segment::Segment(std::span<const std::unique_ptr<RunnableLayer<float>>> layers, std::int64_t batch,
                 std::int64_t micro_batch_count, bool first_in_network, Arena& arena)
    : layers_(layers), batch_(batch), first_in_network_(first_in_network), arena_(&arena) {
  for (const auto& layer : layers_) {
    const std::int64_t count = layer->parameter_buffer_count();
    parameters_.push_back(take(count, MemoryItem::weights));
    gradients_.push_back(take(count, MemoryItem::gradients));
    std::fill_n(gradients_.back(), count, 0.0F);
  }
  workspace_count_ = largest_workspace(layers_, batch_);
  workspace_ = take(workspace_count_, MemoryItem::workspace);
  stashes_.resize(layers_.size() * static_cast<std::size_t>(micro_batch_count), nullptr);
}

float* Segment::take(std::int64_t count, MemoryItem item) {
  if (count == 0) return nullptr;
  return reinterpret_cast<float*>(arena_->allocate(float_bytes(count), item));
}

void Segment::initialize(std::uint64_t seed, std::int64_t first_layer) {
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const auto number = static_cast<std::uint64_t>(first_layer) + i;
    if (parameters_[i] != nullptr) layers_[i]->initialize(parameters_[i], part_seed(seed, number));
  }
}

float* Segment::stash(std::int64_t micro_batch, std::size_t layer) const {
  float* place = stashes_.at(static_cast<std::size_t>(micro_batch) * layers_.size() + layer);
  PIPEPLAN_ASSERT(place != nullptr);
  return place;
}

void Segment::begin(std::int64_t micro_batch) {
  const std::size_t row = static_cast<std::size_t>(micro_batch) * layers_.size();
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    PIPEPLAN_ASSERT(stashes_.at(row + i) == nullptr);
    stashes_[row + i] = take(layers_[i]->stash_count(batch_), MemoryItem::activations);
  }
}

void Segment::finish(std::int64_t micro_batch) {
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    auto* block = reinterpret_cast<std::byte*>(stash(micro_batch, i));
    arena_->release(block, float_bytes(layers_[i]->stash_count(batch_)), MemoryItem::activations);
    stashes_[static_cast<std::size_t>(micro_batch) * layers_.size() + i] = nullptr;
  }
}

std::span<float> Segment::input(std::int64_t micro_batch) {
  return span_of(stash(micro_batch, 0), layers_.front()->input_count(batch_));
}

std::span<float> Segment::targets(std::int64_t micro_batch) {
  const RunnableLayer<float>& last = *layers_.back();
  float* place = stash(micro_batch, layers_.size() - 1) + last.target_offset(batch_);
  return span_of(place, last.target_count(batch_));
}

std::span<const float> Segment::output() const {
  return span_of(workspace_, layers_.back()->output_count(batch_));
}

std::span<float> Segment::output_gradient() {
  return span_of(places(layers_.size() - 1).grad_output, layers_.back()->output_count(batch_));
}

std::span<const float> Segment::input_gradient() const {
  return span_of(places(0).grad_input, layers_.front()->input_count(batch_));
}

Segment::Places Segment::places(std::size_t layer) const {
  const RunnableLayer<float>& it = *layers_[layer];
  const std::int64_t output = aligned_count<float>(it.output_count(batch_));
  const std::int64_t input = aligned_count<float>(it.input_count(batch_));
  const bool output_is_low = (layers_.size() - 1 - layer) % 2 == 0;
  float* high_end = workspace_ + workspace_count_;
  float* deferred = workspace_ + (output_is_low ? output : input);
  return {.grad_output = output_is_low ? workspace_ : high_end - output,
          .grad_input = output_is_low ? high_end - input : workspace_,
          .deferred = deferred,
          .scratch = deferred + aligned_count<float>(it.deferred_count(batch_))};
}

void Segment::forward_layer(std::size_t layer, std::int64_t micro_batch) {
  const bool last = layer + 1 == layers_.size();
  float* output = last ? workspace_ : stash(micro_batch, layer + 1);
  float* scratch = workspace_ + aligned_count<float>(layers_[layer]->output_count(batch_));
  layers_[layer]->forward(batch_, parameters_[layer], stash(micro_batch, layer), output, scratch);
}

void Segment::backward_input_layer(std::size_t layer, std::int64_t micro_batch) {
  const Places at = places(layer);
  float* grad_input = first_in_network_ && layer == 0 ? nullptr : at.grad_input;
  layers_[layer]->backward_input(batch_, parameters_[layer], stash(micro_batch, layer), at.grad_output,
                                 grad_input, at.deferred, at.scratch);
}

void Segment::backward_weight_layer(std::size_t layer, std::int64_t micro_batch) {
  if (parameters_[layer] == nullptr) return;
  const Places at = places(layer);
  layers_[layer]->backward_weight(batch_, parameters_[layer], stash(micro_batch, layer), at.grad_output,
                                  at.deferred, gradients_[layer], at.scratch);
}

void Segment::step_layer(std::size_t layer, float learning_rate) {
  if (parameters_[layer] == nullptr) return;
  sgd_step(layers_[layer]->parameter_buffer_count(), learning_rate, parameters_[layer], gradients_[layer]);
}

void Segment::forward(std::int64_t micro_batch) {
  for (std::size_t i = 0; i < layers_.size(); ++i) forward_layer(i, micro_batch);
}

void Segment::backward(std::int64_t micro_batch) {
  for (std::size_t i = layers_.size(); i-- > 0;) {
    backward_input_layer(i, micro_batch);
    backward_weight_layer(i, micro_batch);
  }
}

void Segment::step(float learning_rate) {
  for (std::size_t i = 0; i < layers_.size(); ++i) step_layer(i, learning_rate);
}

std::span<const float> Segment::parameters(std::size_t layer) const {
  return span_of(parameters_[layer], layers_[layer]->parameter_buffer_count());
}

std::span<const float> Segment::gradients(std::size_t layer) const {
  return span_of(gradients_[layer], layers_[layer]->parameter_buffer_count());
}

}  // namespace pipeplan
