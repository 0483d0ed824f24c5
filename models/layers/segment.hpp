#pragma once

// Neighbouring layers of a network with their memory, ready to run on one thread: what a stage of an executor
// and a profiler both drive. Weights and gradients live as long as the segment, a stash per layer lives from
// a micro-batch's forward to the end of its backward, and one workspace serves every layer in turn. All of it
// comes from the caller's arena.
//
// The workspace of a backward holds the gradient of the output at one end, that of the input at the other,
// deferred and scratch between; the next layer down finds its output gradient where the last one left its
// input gradient. So the largest layer alone sets the size.

#include <memory>
#include <span>
#include <vector>

#include "models/layers/arena.hpp"
#include "models/layers/layer.hpp"
#include "models/model_graph.hpp"

namespace pipeplan {

// What a layer takes in the arena, per micro-batch of `batch` samples; each size as the arena accounts it.
struct LayerBytes {
  Bytes parameter;
  Bytes activation;  // its stash
  Bytes workspace;   // output and input gradient, deferred, scratch
  Bytes output;
  Bytes input;
};
LayerBytes layer_bytes(const RunnableLayer<float>& layer, std::int64_t batch);

// The runnable layers of `model`, or an error that says that it has none.
Result<std::vector<std::unique_ptr<RunnableLayer<float>>>> runnable_layers(const ModelGraph& model);

// Arena bytes a segment of these layers takes with `in_flight` stashes each.
MemoryUse segment_memory(std::span<const std::unique_ptr<RunnableLayer<float>>> layers, std::int64_t batch,
                         std::int64_t in_flight);

class Segment {
 public:
  // `first_in_network`: the first layer's input gradient is not wanted. Layers and arena must outlive the
  // segment.
  Segment(std::span<const std::unique_ptr<RunnableLayer<float>>> layers, std::int64_t batch,
          std::int64_t micro_batch_count, bool first_in_network, Arena& arena);

  // Layer i's parameters from `seed` and its number in the network: the same however the network is cut.
  void initialize(std::uint64_t seed, std::int64_t first_layer);

  // Takes the stashes of a micro-batch; its input (and targets, if a loss ends the segment) must then be
  // filled.
  void begin(std::int64_t micro_batch);
  [[nodiscard]] std::span<float> input(std::int64_t micro_batch);
  [[nodiscard]] std::span<float> targets(std::int64_t micro_batch);
  void forward(std::int64_t micro_batch);
  // The last layer's output, or the loss; valid until the next call that runs a layer.
  [[nodiscard]] std::span<const float> output() const;

  // Where the gradient of the output must be put before backward.
  [[nodiscard]] std::span<float> output_gradient();
  void backward(std::int64_t micro_batch);
  // The gradient of the segment's input, valid as output() is.
  [[nodiscard]] std::span<const float> input_gradient() const;
  void finish(std::int64_t micro_batch);

  void step(float learning_rate);

  // One layer at a time, for those who time them; layers count from 0 in the segment.
  void forward_layer(std::size_t layer, std::int64_t micro_batch);
  void backward_input_layer(std::size_t layer, std::int64_t micro_batch);
  void backward_weight_layer(std::size_t layer, std::int64_t micro_batch);
  void step_layer(std::size_t layer, float learning_rate);

  [[nodiscard]] std::size_t layer_count() const { return layers_.size(); }
  [[nodiscard]] std::span<const float> parameters(std::size_t layer) const;
  [[nodiscard]] std::span<const float> gradients(std::size_t layer) const;

 private:
  // Where a layer finds its buffers in the workspace during the backward.
  struct Places {
    float* grad_output;
    float* grad_input;
    float* deferred;
    float* scratch;
  };
  [[nodiscard]] Places places(std::size_t layer) const;
  float* stash(std::int64_t micro_batch, std::size_t layer) const;
  float* take(std::int64_t count, MemoryItem item);

  std::span<const std::unique_ptr<RunnableLayer<float>>> layers_;
  std::int64_t batch_;
  bool first_in_network_;
  Arena* arena_;
  std::vector<float*> parameters_, gradients_;
  std::vector<float*> stashes_;  // micro-batch major
  float* workspace_ = nullptr;
  std::int64_t workspace_count_ = 0;
};

}  // namespace pipeplan
