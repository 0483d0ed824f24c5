#pragma once

// One worker on one thread, pinned to one core: real layers, real tensors, real copies between stages. The
// thread makes its own memory, so that pages lie near its core, and takes nothing but stashes from its arena
// while it runs.

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "executor/cpu/batches.hpp"
#include "executor/cpu/gradient_sum.hpp"
#include "executor/placed_stage.hpp"
#include "executor/threads/command_thread.hpp"

namespace pipeplan {

// What the workers of a run share.
struct CpuRig {
  CpuRig(std::size_t command_count, Waiting how, RunnableLayers network, const PipelineCosts* emulated)
      : events(command_count, how), waiting(how), layers(std::move(network)), links(emulated) {}

  EventBoard events;
  Waiting waiting;
  std::unique_ptr<Processor> processor = make_host_processor();
  RunnableLayers layers;       // of the whole network
  const PipelineCosts* links;  // to emulate; null: tensors arrive as fast as they are copied
  PlacedStages stages;
};

class CpuDevice final : public TrainingDevice, private CommandRunner {
 public:
  // `core` is the one it stays on; `rig` outlives the device.
  CpuDevice(WorkerSpec spec, std::optional<int> core, Arena arena, CpuRig& rig);

  Result<void> begin_iteration(std::int64_t number) override;
  void enqueue(const Command& command) override { thread_.enqueue(command); }
  Result<void> wait_all() override;
  [[nodiscard]] Result<std::vector<Stamp>> stamps() override { return thread_.stamps(); }
  [[nodiscard]] RankMemory memory() const override;

  [[nodiscard]] std::vector<float> losses() const override { return losses_; }
  void keep_gradients(bool keep) override { keep_gradients_ = keep; }
  [[nodiscard]] std::vector<std::vector<float>> gradients(StageId stage) const override;
  [[nodiscard]] Result<StageValues> values(StageId stage) override;
  Result<void> set_values(StageId stage, const StageValues& values) override;

 private:
  void set_up() override;
  Nanoseconds run(const Command& command, Nanoseconds available) override;
  void note(const Command& command, const Stamp& stamp) override;

  void compute(const Command& command);
  void forward(const Command& command);
  void backward(const Command& command);
  void backward_input(const Command& command);
  void backward_weight(const Command& command);
  void put_output_gradient(const Command& command, std::span<float> place) const;
  void send(const Command& command) const;
  void exchange(const Command& command) const;
  void wait_for_ring(const Command& command, Nanoseconds start) const;
  void step(StageId stage);

  [[nodiscard]] PlacedStage& placed(StageId stage) const { return rig_.stages.at({spec_.id, stage}); }
  [[nodiscard]] Segment& segment(StageId stage) const { return *placed(stage).segment; }

  WorkerSpec spec_;
  Arena arena_;
  CpuRig& rig_;
  Batches batches_;

  std::int64_t iteration_ = 0;
  std::vector<MemoryStep> memory_steps_;
  std::int64_t in_flight_ = 0;
  std::vector<float> losses_;
  bool keep_gradients_ = false;
  std::map<StageId, std::vector<std::vector<float>>> gradients_;
  CommandThread thread_;
};

}  // namespace pipeplan
