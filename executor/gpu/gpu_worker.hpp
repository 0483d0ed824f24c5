#pragma once

// One worker on a queue of a GPU: the stages of its rank with their memory, layers and data. Commands are
// enqueued at once and in the order in which they come, each after the events that it waits for; the host
// waits for nothing until the iteration is over, but for copying gradients where they are kept. A send is a
// copy in the sender's own order: on one GPU straight into the receiver's buffer, between GPUs over whatever
// joins them; the sender goes on when its tensor has left.

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "executor/gpu/batch_store.hpp"
#include "executor/gpu/gpu_rig.hpp"
#include "executor/gpu/gradient_exchange.hpp"
#include "executor/gpu/memory_trail.hpp"

namespace pipeplan {

class GpuWorker : public TrainingDevice {
 public:
  // Reserves the worker's memory on its queue in `rig`, which outlives the device. `layers` are the queue's
  // own, to which `spec` refers. Refused: what the GPU has no room for, naming the worker, the bytes asked
  // for and those there.
  static Result<std::unique_ptr<GpuWorker>> make(WorkerSpec spec, RunnableLayers layers, GpuRig& rig);
  // Once all devices of the run are there. `links`: whose times to emulate, or null.
  Result<void> join_peers(const PipelineCosts* links);

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
  GpuWorker(WorkerSpec spec, RunnableLayers layers, GpuRig& rig);
  Result<void> synchronize();

  void compute(const Command& command);
  void forward(const Command& command);
  void backward(const Command& command);
  void backward_input(const Command& command);
  void backward_weight(const Command& command);
  void put_output_gradient(const Command& command, std::span<float> place);
  void send(const Command& command);
  void step(StageId stage);

  [[nodiscard]] PlacedStage& placed(StageId stage) const;
  [[nodiscard]] LaunchLabel transfer_label(const Command& command) const;

  WorkerSpec spec_;
  GpuRig& rig_;
  GpuQueue& queue_;
  RunnableLayers layers_;  // of the whole network; spec_ refers to them
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
