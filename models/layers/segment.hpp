#pragma once

// Neighbouring layers of a network with their memory, ready to run on one processor: what a stage of an
// executor and a profiler both drive. Weights, gradients and optimizer state live as long as the segment, a
// stash per layer lives from a micro-batch's forward to the end of its backward, and one workspace serves
// every layer in turn. All of it comes from the caller's arena.
//
// The workspace of a backward holds the gradient of the output at one end, that of the input at the other,
// deferred and scratch between; the next layer down finds its output gradient where the last one left its
// input gradient. So the largest layer alone sets the size.
//
// Recomputation: neighbouring recomputed layers form a run. Per micro-batch only the input of each run is
// kept; the stashes of all recomputed layers exist once, filled by the forward and again by recompute().
// Split backward: what backward_input leaves for backward_weight (output gradient and deferred of each layer
// with parameters) is kept per micro-batch between the two. Recomputed segments have no split backward.

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "models/layers/arena.hpp"
#include "models/layers/layer.hpp"
#include "models/layers/processor.hpp"
#include "models/model_graph.hpp"

namespace pipeplan {

using RunnableLayers = std::vector<std::unique_ptr<RunnableLayer<float>>>;

// What a layer takes in the arena, per micro-batch of `batch` samples; each size as the arena accounts it.
struct LayerBytes {
  Bytes parameter;
  Bytes activation;  // its stash
  Bytes workspace;   // output and input gradient, deferred, scratch
  Bytes deferred;    // kept from B to W when they run apart; 0 without parameters
  Bytes output;
  Bytes input;
};
LayerBytes layer_bytes(const RunnableLayer<float>& layer, std::int64_t batch);

// The runnable layers of `model` on a processor, or an error that says that it has none.
Result<RunnableLayers> runnable_layers(const ModelGraph& model, Processor& processor);
// The same on the CPU.
Result<RunnableLayers> runnable_layers(const ModelGraph& model);

// What a segment is made of.
struct SegmentSpec {
  std::span<const std::unique_ptr<RunnableLayer<float>>> layers;
  std::int64_t first_layer = 0;  // number of layers[0] in the network; 0: its input gradient is not wanted
  std::int64_t batch = 1;        // samples per micro-batch
  std::int64_t micro_batch_count = 1;
  OptimizerRule optimizer = OptimizerRule::sgd;
  std::vector<bool> recomputed = {};  // per layer, no loss among them; empty: none

  [[nodiscard]] bool is_recomputed(std::size_t layer) const;
  // Whether `layer` is the first of a run of recomputed layers.
  [[nodiscard]] bool begins_run(std::size_t layer) const;
  // Scalars that each micro-batch keeps from forward to backward: the stash, of a run its input alone.
  [[nodiscard]] std::int64_t kept_count(std::size_t layer) const;
  // Scalars that each micro-batch keeps from B to W: output gradient and deferred; 0 without parameters.
  [[nodiscard]] std::int64_t split_count(std::size_t layer) const;
  // Scalars of the largest layer's workspace.
  [[nodiscard]] std::int64_t workspace_count() const;
};

// Arena bytes of a segment with `in_flight` micro-batches between F and the end of their backward, and
// `split_in_flight` of them between B and W.
MemoryUse segment_memory(const SegmentSpec& spec, std::int64_t in_flight, std::int64_t split_in_flight = 0);

class Segment {
 public:
  // Takes everything but stashes from `arena`. Layers, processor and arena must outlive the segment.
  Segment(SegmentSpec spec, Processor& processor, Arena& arena);

  // Layer i's parameters from `seed` and its number in the network: the same however the network is cut.
  void initialize(std::uint64_t seed);

  // All places are in the processor's memory.

  // Takes the stashes of a micro-batch; its input (and targets, if a loss ends the segment) must then be
  // filled.
  void begin(std::int64_t micro_batch);
  [[nodiscard]] std::span<float> input(std::int64_t micro_batch);
  [[nodiscard]] std::span<float> targets(std::int64_t micro_batch);
  void forward(std::int64_t micro_batch);
  // The last layer's output, or the loss; valid until the next call that runs a layer.
  [[nodiscard]] std::span<const float> output() const;

  // Runs the recomputed layers forward again; before the output gradient is put into its place.
  void recompute(std::int64_t micro_batch);
  [[nodiscard]] bool recomputes() const;

  // Fused backward: the gradient of the output goes to output_gradient() first.
  [[nodiscard]] std::span<float> output_gradient();
  void backward(std::int64_t micro_batch);
  // Split backward: begin_split takes the room from B to W, the output gradient goes to
  // split_output_gradient, then backward_input, later backward_weight, which gives the room back.
  void begin_split(std::int64_t micro_batch);
  [[nodiscard]] std::span<float> split_output_gradient(std::int64_t micro_batch);
  void backward_input(std::int64_t micro_batch);
  void backward_weight(std::int64_t micro_batch);
  // The gradient of the segment's input, valid as output() is.
  [[nodiscard]] std::span<const float> input_gradient() const;
  // Gives the stashes back.
  void finish(std::int64_t micro_batch);

  // Step `number`, from 1.
  void step(const Optimizer& optimizer, std::int64_t number);

  // One layer at a time, for those who time them; layers count from 0 in the segment. Nothing recomputed.
  void forward_layer(std::size_t layer, std::int64_t micro_batch);
  void backward_input_layer(std::size_t layer, std::int64_t micro_batch);
  void backward_weight_layer(std::size_t layer, std::int64_t micro_batch);
  void step_layer(std::size_t layer, const Optimizer& optimizer, std::int64_t number);

  [[nodiscard]] std::size_t layer_count() const;
  [[nodiscard]] std::span<float> parameters(std::size_t layer);
  [[nodiscard]] std::span<float> gradients(std::size_t layer);
  [[nodiscard]] std::span<float> optimizer_state(std::size_t layer);  // empty for plain gradient descent

 private:
  // Where a layer finds its buffers during the backward.
  struct Places {
    float* grad_output;
    float* grad_input;
    float* deferred;
    float* scratch;
  };
  [[nodiscard]] Places fused_places(std::size_t layer) const;
  [[nodiscard]] Places split_places(std::size_t layer, std::int64_t micro_batch) const;
  // Where split_count(layer) scalars of the micro-batch lie, output gradient first; null if there are none.
  [[nodiscard]] float* split_room(std::size_t layer, std::int64_t micro_batch) const;

  [[nodiscard]] float* kept(std::size_t layer, std::int64_t micro_batch) const;
  [[nodiscard]] float* stash(std::size_t layer, std::int64_t micro_batch) const;
  // Where the input of a layer is written: what is kept of it, or the shared stash within a run.
  [[nodiscard]] float* input_place(std::size_t layer, std::int64_t micro_batch) const;
  [[nodiscard]] LaunchLabel label(std::size_t layer, LayerPass pass, std::int64_t micro_batch) const;

  void run_forward(std::size_t layer, std::int64_t micro_batch, float* output);
  void run_backward_input(std::size_t layer, std::int64_t micro_batch, const Places& at);
  void run_backward_weight(std::size_t layer, std::int64_t micro_batch, const Places& at);

  float* take(std::int64_t count, MemoryItem item);
  float* take_zeroed(std::int64_t count, MemoryItem item);
  // Returns null, for the owner to remember instead.
  float* give_back(float* block, std::int64_t count, MemoryItem item);

  SegmentSpec spec_;
  Processor* processor_;
  Arena* arena_;
  std::vector<float*> parameters_, gradients_, state_;  // per layer; null where there is none
  std::vector<float*> shared_;                          // per layer: the one stash of a recomputed layer
  std::vector<float*> kept_;                            // per layer of a micro-batch, micro-batch major
  std::vector<float*> split_;                           // per micro-batch: one block between B and W
  std::vector<std::int64_t> split_offsets_;             // per layer, in that block; the last is its size
  float* workspace_ = nullptr;
  std::int64_t workspace_count_;
  std::optional<std::int64_t> recomputed_for_ = {};  // the micro-batch that the shared stashes belong to
};

}  // namespace pipeplan
