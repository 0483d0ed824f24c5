#pragma once

// One worker on a queue of a GPU: the stages of its rank with their memory, layers and data. Commands are
// enqueued at once and in the order in which they come, each after the events that it waits for; the host
// waits for nothing until the iteration is over, but for copying gradients where they are kept. A send is a
// copy in the sender's own order: on one GPU straight into the receiver's buffer, between GPUs over whatever
// joins them; the sender goes on when its tensor has left.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "executor/gpu/batch_store.hpp"
#include "executor/gpu/gpu_rig.hpp"
#include "executor/gpu/gradient_exchange.hpp"
#include "executor/gpu/memory_trail.hpp"

namespace pipeplan {

// A stage as a worker is given it.
struct GpuStageSpec {
  StageId stage;
  std::int64_t first_layer = 0;
  std::int64_t layer_count = 1;
  std::vector<bool> recomputed;
  std::int64_t peak_in_flight = 1;    // micro-batches between F and the end of their backward
  std::int64_t split_in_flight = 0;   // between B and W
  std::int64_t activation_slots = 0;  // receive buffers from the stage before, 0 for the first stage
  std::int64_t gradient_slots = 0;    // from the stage behind, 0 for the last stage
  std::vector<WorkerId> peers;        // that hold the same stage, this worker among them
  Nanoseconds all_reduce{};           // what its links would take; 0 where they are not emulated
};

struct GpuWorkerSpec {
  WorkerId id;
  std::string name;  // for messages: "stage 1, replica 0"
  std::vector<GpuStageSpec> stages;
  std::int64_t stage_count = 1;  // of the network
  BatchShape batch;              // its counts are filled by the device
  float loss_factor = 1;         // of each micro-batch's mean loss in the loss of the iteration
  Optimizer optimizer;
};

class GpuWorker : public TrainingDevice {
 public:
  // Reserves the worker's memory on its queue in `rig`, which outlives the device. Refused: what the GPU has
  // no room for, naming the worker, the bytes asked for and those there.
  static Result<std::unique_ptr<GpuWorker>> make(GpuWorkerSpec spec, const ModelGraph& model, GpuRig& rig);
  // Once all devices of the run are there.
  Result<void> join_peers();

  Result<void> begin_iteration(std::int64_t number) override;
  void enqueue(const Command& command) override;
  Result<void> wait_all() override;
  [[nodiscard]] Result<std::vector<Stamp>> stamps() override;
  [[nodiscard]] RankMemory memory() const override { return memory_; }

  [[nodiscard]] std::vector<float> losses() const override { return losses_; }
  void keep_gradients(bool keep) override { keep_gradients_ = keep; }
  [[nodiscard]] std::vector<std::vector<float>> gradients(StageId stage) const override;
  [[nodiscard]] Result<StageValues> values(StageId stage) override;
  Result<void> set_values(StageId stage, const StageValues& values) override;

 private:
  GpuWorker(GpuWorkerSpec spec, GpuRig& rig, RunnableLayers layers);
  void place_stages();
  Result<void> place_batches();
  Result<void> synchronize();

  void compute(const Command& command);
  void forward(const Command& command);
  void backward(const Command& command);
  void backward_input(const Command& command);
  void backward_weight(const Command& command);
  void put_output_gradient(const Command& command, std::span<float> place);
  void send(const Command& command);
  void step(StageId stage);

  [[nodiscard]] GpuStageMemory& stage_memory(StageId stage) const;
  [[nodiscard]] SegmentSpec segment_spec(const GpuStageSpec& stage) const;
  [[nodiscard]] Bytes memory_needed() const;
  [[nodiscard]] LaunchLabel transfer_label(const Command& command) const;
  [[nodiscard]] bool is_last(StageId stage) const { return stage.value + 1 == spec_.stage_count; }

  GpuWorkerSpec spec_;
  GpuRig& rig_;
  GpuQueue& queue_;
  RunnableLayers layers_;  // of the whole network
  std::optional<Arena> arena_;
  std::optional<BatchStore> batches_;
  std::map<StageId, GradientExchange> exchanges_;

  std::int64_t iteration_ = 0;
  std::vector<CommandId> enqueued_;
  MemoryTrail trail_;
  RankMemory memory_;
  std::vector<Stamp> stamps_;
  std::vector<float> losses_;
  bool keep_gradients_ = false;
  std::map<StageId, std::vector<std::vector<float>>> gradients_;
};

}  // namespace pipeplan
