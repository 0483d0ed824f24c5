#include "models/layers/segment.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "models/base/assert.hpp"
#include "models/layers/initial_values.hpp"

namespace pipeplan {
namespace {

Bytes float_bytes(std::int64_t count) { return {count * static_cast<std::int64_t>(sizeof(float))}; }

std::span<float> span_of(float* begin, std::int64_t count) {
  return {begin, static_cast<std::size_t>(count)};
}

std::size_t index_of(std::int64_t number) { return static_cast<std::size_t>(number); }

// Host memory aligned as layers want it.
class HostBuffer {
 public:
  explicit HostBuffer(std::int64_t count)
      : count_(count), lines_(index_of(aligned_count<float>(count)) / Line::size) {}
  [[nodiscard]] std::span<float> values() { return span_of(lines_.front().values, count_); }

 private:
  struct alignas(buffer_alignment) Line {
    static constexpr std::size_t size = buffer_alignment / sizeof(float);
    float values[size];
  };
  std::int64_t count_;
  std::vector<Line> lines_;
};

}  // namespace

Result<RunnableLayers> runnable_layers(const ModelGraph& model, Processor& processor) {
  RunnableLayers layers;
  for (const Layer& layer : model.layers()) {
    if (!layer.runnable)
      return bad_input(model.name(), fmt::format("layer '{}' has no runnable form", layer.name),
                       "only networks built by pipeplan's own zoo can be run");
    PIPEPLAN_TRY(made, processor.make_layer(*layer.runnable, layer.name));
    layers.push_back(std::move(made));
  }
  return layers;
}

Result<RunnableLayers> runnable_layers(const ModelGraph& model) {
  return runnable_layers(model, *make_host_processor());
}

Segment::Segment(SegmentSpec spec, Processor& processor, Arena& arena)
    : spec_(std::move(spec)),
      processor_(&processor),
      arena_(&arena),
      split_offsets_{0},
      workspace_count_(spec_.workspace_count()) {
  PIPEPLAN_ASSERT(spec_.recomputed.empty() || spec_.recomputed.size() == spec_.layers.size());
  for (std::size_t i = 0; i < spec_.layers.size(); ++i) {
    const RunnableLayer<float>& layer = *spec_.layers[i];
    PIPEPLAN_ASSERT(!spec_.is_recomputed(i) || layer.target_count(spec_.batch) == 0);
    const std::int64_t count = layer.parameter_buffer_count();
    parameters_.push_back(take(count, MemoryItem::weights));
    gradients_.push_back(take_zeroed(count, MemoryItem::gradients));
    state_.push_back(take_zeroed(count * state_buffer_count(spec_.optimizer), MemoryItem::optimizer_state));
    const std::int64_t shared = spec_.is_recomputed(i) ? layer.stash_count(spec_.batch) : 0;
    shared_.push_back(take(shared, MemoryItem::activations));
    split_offsets_.push_back(split_offsets_.back() + spec_.split_count(i));
  }
  workspace_ = take(workspace_count_, MemoryItem::workspace);
  kept_.resize(spec_.layers.size() * index_of(spec_.micro_batch_count), nullptr);
  split_.resize(index_of(spec_.micro_batch_count), nullptr);
}

float* Segment::take(std::int64_t count, MemoryItem item) {
  if (count == 0) return nullptr;
  return reinterpret_cast<float*>(arena_->allocate(float_bytes(count), item));
}

float* Segment::take_zeroed(std::int64_t count, MemoryItem item) {
  float* block = take(count, item);
  if (block != nullptr) processor_->zero(block, count);
  return block;
}

float* Segment::give_back(float* block, std::int64_t count, MemoryItem item) {
  if (count == 0) return nullptr;
  PIPEPLAN_ASSERT(block != nullptr);
  arena_->release(reinterpret_cast<std::byte*>(block), float_bytes(count), item);
  return nullptr;
}

void Segment::initialize(std::uint64_t seed) {
  for (std::size_t i = 0; i < layer_count(); ++i) {
    if (parameters_[i] == nullptr) continue;
    HostBuffer values(spec_.layers[i]->parameter_buffer_count());
    const auto number = static_cast<std::uint64_t>(spec_.first_layer) + i;
    spec_.layers[i]->initialize(values.values().data(), part_seed(seed, number));
    processor_->upload(values.values(), parameters_[i]);
  }
}

void Segment::begin(std::int64_t micro_batch) {
  if (recomputed_for_ == micro_batch) recomputed_for_.reset();
  for (std::size_t i = 0; i < layer_count(); ++i) {
    float*& block = kept_.at(index_of(micro_batch) * layer_count() + i);
    PIPEPLAN_ASSERT(block == nullptr);
    block = take(spec_.kept_count(i), MemoryItem::activations);
  }
}

void Segment::finish(std::int64_t micro_batch) {
  PIPEPLAN_ASSERT(split_.at(index_of(micro_batch)) == nullptr);
  for (std::size_t i = 0; i < layer_count(); ++i) {
    float*& block = kept_.at(index_of(micro_batch) * layer_count() + i);
    block = give_back(block, spec_.kept_count(i), MemoryItem::activations);
  }
}

float* Segment::kept(std::size_t layer, std::int64_t micro_batch) const {
  float* place = kept_.at(index_of(micro_batch) * layer_count() + layer);
  PIPEPLAN_ASSERT(place != nullptr);
  return place;
}

float* Segment::stash(std::size_t layer, std::int64_t micro_batch) const {
  return spec_.is_recomputed(layer) ? shared_[layer] : kept(layer, micro_batch);
}

float* Segment::input_place(std::size_t layer, std::int64_t micro_batch) const {
  const bool within_run = spec_.is_recomputed(layer) && !spec_.begins_run(layer);
  return within_run ? shared_[layer] : kept(layer, micro_batch);
}

LaunchLabel Segment::label(std::size_t layer, LayerPass pass, std::int64_t micro_batch) const {
  return {.layer = spec_.first_layer + static_cast<std::int64_t>(layer),
          .pass = pass,
          .micro_batch = micro_batch};
}

std::span<float> Segment::input(std::int64_t micro_batch) {
  return span_of(kept(0, micro_batch), spec_.layers.front()->input_count(spec_.batch));
}

std::span<float> Segment::targets(std::int64_t micro_batch) {
  const RunnableLayer<float>& last = *spec_.layers.back();
  const std::int64_t count = last.target_count(spec_.batch);
  if (count == 0) return {};
  return span_of(kept(layer_count() - 1, micro_batch) + last.target_offset(spec_.batch), count);
}

std::span<const float> Segment::output() const {
  return span_of(workspace_, spec_.layers.back()->output_count(spec_.batch));
}

std::span<float> Segment::output_gradient() {
  return span_of(fused_places(layer_count() - 1).grad_output, spec_.layers.back()->output_count(spec_.batch));
}

std::span<float> Segment::split_output_gradient(std::int64_t micro_batch) {
  return span_of(split_places(layer_count() - 1, micro_batch).grad_output,
                 spec_.layers.back()->output_count(spec_.batch));
}

std::span<const float> Segment::input_gradient() const {
  return span_of(fused_places(0).grad_input, spec_.layers.front()->input_count(spec_.batch));
}

Segment::Places Segment::fused_places(std::size_t layer) const {
  const RunnableLayer<float>& it = *spec_.layers[layer];
  const std::int64_t output = aligned_count<float>(it.output_count(spec_.batch));
  const std::int64_t input = aligned_count<float>(it.input_count(spec_.batch));
  const bool output_is_low = (layer_count() - 1 - layer) % 2 == 0;
  float* high_end = workspace_ + workspace_count_;
  float* deferred = workspace_ + (output_is_low ? output : input);
  return {.grad_output = output_is_low ? workspace_ : high_end - output,
          .grad_input = output_is_low ? high_end - input : workspace_,
          .deferred = deferred,
          .scratch = deferred + aligned_count<float>(it.deferred_count(spec_.batch))};
}

Segment::Places Segment::split_places(std::size_t layer, std::int64_t micro_batch) const {
  Places at = fused_places(layer);
  if (float* room = split_room(layer, micro_batch); room != nullptr) {
    at.grad_output = room;
    at.deferred = room + aligned_count<float>(spec_.layers[layer]->output_count(spec_.batch));
  }
  if (layer == 0) return at;
  if (float* below = split_room(layer - 1, micro_batch); below != nullptr) at.grad_input = below;
  return at;
}

float* Segment::split_room(std::size_t layer, std::int64_t micro_batch) const {
  if (split_offsets_[layer] == split_offsets_[layer + 1]) return nullptr;
  float* block = split_.at(index_of(micro_batch));
  PIPEPLAN_ASSERT(block != nullptr);
  return block + split_offsets_[layer];
}

void Segment::run_forward(std::size_t layer, std::int64_t micro_batch, float* output) {
  const RunnableLayer<float>& it = *spec_.layers[layer];
  const LaunchScope scope(*processor_, label(layer, LayerPass::forward, micro_batch));
  // Layers overwrite their input, and this one will be wanted again.
  if (spec_.begins_run(layer))
    processor_->copy(kept(layer, micro_batch), shared_[layer], it.input_count(spec_.batch));
  float* scratch = workspace_ + aligned_count<float>(it.output_count(spec_.batch));
  it.forward(spec_.batch, parameters_[layer], stash(layer, micro_batch), output, scratch);
}

void Segment::run_backward_input(std::size_t layer, std::int64_t micro_batch, const Places& at) {
  const LaunchScope scope(*processor_, label(layer, LayerPass::backward_input, micro_batch));
  const bool first_in_network = spec_.first_layer == 0 && layer == 0;
  spec_.layers[layer]->backward_input(spec_.batch, parameters_[layer], stash(layer, micro_batch),
                                      at.grad_output, first_in_network ? nullptr : at.grad_input, at.deferred,
                                      at.scratch);
}

void Segment::run_backward_weight(std::size_t layer, std::int64_t micro_batch, const Places& at) {
  if (parameters_[layer] == nullptr) return;
  const LaunchScope scope(*processor_, label(layer, LayerPass::backward_weight, micro_batch));
  spec_.layers[layer]->backward_weight(spec_.batch, parameters_[layer], stash(layer, micro_batch),
                                       at.grad_output, at.deferred, gradients_[layer], at.scratch);
}

void Segment::forward_layer(std::size_t layer, std::int64_t micro_batch) {
  const bool last = layer + 1 == layer_count();
  run_forward(layer, micro_batch, last ? workspace_ : input_place(layer + 1, micro_batch));
}

void Segment::backward_input_layer(std::size_t layer, std::int64_t micro_batch) {
  run_backward_input(layer, micro_batch, fused_places(layer));
}

void Segment::backward_weight_layer(std::size_t layer, std::int64_t micro_batch) {
  run_backward_weight(layer, micro_batch, fused_places(layer));
}

void Segment::step_layer(std::size_t layer, const Optimizer& optimizer, std::int64_t number) {
  PIPEPLAN_ASSERT(state_buffer_count(optimizer.rule) == state_buffer_count(spec_.optimizer));
  if (parameters_[layer] == nullptr) return;
  const LaunchScope scope(*processor_, label(layer, LayerPass::optimizer, 0));
  processor_->step(optimizer, number, spec_.layers[layer]->parameter_buffer_count(), parameters_[layer],
                   gradients_[layer], state_[layer]);
}

void Segment::forward(std::int64_t micro_batch) {
  for (std::size_t i = 0; i < layer_count(); ++i) forward_layer(i, micro_batch);
  recomputed_for_ = micro_batch;
}

bool Segment::recomputes() const { return std::ranges::count(spec_.recomputed, true) > 0; }

void Segment::recompute(std::int64_t micro_batch) {
  for (std::size_t i = 0; i < layer_count(); ++i) {
    if (!spec_.is_recomputed(i)) continue;
    // The layer behind a run has its input since the forward, and may have overwritten it: nobody wants this.
    const bool run_goes_on = i + 1 < layer_count() && spec_.is_recomputed(i + 1);
    run_forward(i, micro_batch, run_goes_on ? shared_[i + 1] : workspace_);
  }
  recomputed_for_ = micro_batch;
}

void Segment::backward(std::int64_t micro_batch) {
  PIPEPLAN_ASSERT(!recomputes() || recomputed_for_ == micro_batch);
  for (std::size_t i = layer_count(); i-- > 0;) {
    backward_input_layer(i, micro_batch);
    backward_weight_layer(i, micro_batch);
  }
}

void Segment::begin_split(std::int64_t micro_batch) {
  float*& block = split_.at(index_of(micro_batch));
  PIPEPLAN_ASSERT(!recomputes() && block == nullptr);
  block = take(split_offsets_.back(), MemoryItem::activations);
}

void Segment::backward_input(std::int64_t micro_batch) {
  for (std::size_t i = layer_count(); i-- > 0;)
    run_backward_input(i, micro_batch, split_places(i, micro_batch));
}

void Segment::backward_weight(std::int64_t micro_batch) {
  for (std::size_t i = layer_count(); i-- > 0;)
    run_backward_weight(i, micro_batch, split_places(i, micro_batch));
  float*& block = split_.at(index_of(micro_batch));
  block = give_back(block, split_offsets_.back(), MemoryItem::activations);
}

void Segment::step(const Optimizer& optimizer, std::int64_t number) {
  for (std::size_t i = 0; i < layer_count(); ++i) step_layer(i, optimizer, number);
}

std::size_t Segment::layer_count() const { return spec_.layers.size(); }

std::span<float> Segment::parameters(std::size_t layer) {
  return span_of(parameters_[layer], spec_.layers[layer]->parameter_buffer_count());
}

std::span<float> Segment::gradients(std::size_t layer) {
  return span_of(gradients_[layer], spec_.layers[layer]->parameter_buffer_count());
}

std::span<float> Segment::optimizer_state(std::size_t layer) {
  return span_of(state_[layer],
                 spec_.layers[layer]->parameter_buffer_count() * state_buffer_count(spec_.optimizer));
}

}  // namespace pipeplan
