#pragma once

// One worker on one thread, pinned to one core: real layers, real tensors, real copies between stages. The
// thread makes its own memory, so that pages lie near its core, and takes nothing but stashes from its arena
// while it runs.

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "executor/cpu/batches.hpp"
#include "executor/cpu/channel.hpp"
#include "executor/cpu/gradient_sum.hpp"
#include "executor/threads/command_thread.hpp"
#include "models/layers/segment.hpp"

namespace pipeplan {

// A stage as a worker is given it.
struct CpuStageSpec {
  StageId stage;
  SegmentSpec segment;
  std::int64_t peak_in_flight = 1;    // micro-batches between F and the end of their backward
  std::int64_t split_in_flight = 0;   // between B and W
  std::int64_t activation_slots = 0;  // receive buffers from the stage before, 0 for the first stage
  std::int64_t gradient_slots = 0;    // from the stage behind, 0 for the last stage
  std::vector<WorkerId> peers;        // that hold the same stage, this worker among them
};

struct CpuWorkerSpec {
  WorkerId id;
  std::string name;  // for messages: "stage 1", "rank 0"
  std::vector<CpuStageSpec> stages;
  std::int64_t stage_count = 1;  // of the network
  BatchShare batch;
  float loss_factor = 1;  // of each micro-batch's mean loss in the loss of the iteration
  Optimizer optimizer;
  ThreadPlace place;
  const PipelineCosts* links = nullptr;  // to emulate; null: tensors arrive as fast as they are copied
};

// A stage as one worker holds it, with the buffers that its neighbours write to.
struct CpuStageMemory {
  Channel activations, gradients;
  std::unique_ptr<Segment> segment;
};

// What the workers of a run share.
struct CpuRig {
  CpuRig(std::size_t command_count, Waiting waiting) : events(command_count, waiting) {}

  EventBoard events;
  std::unique_ptr<Processor> processor = make_host_processor();
  std::map<std::pair<WorkerId, StageId>, CpuStageMemory> stages;
};

class CpuDevice final : public TrainingDevice, private CommandRunner {
 public:
  // Bytes that the worker's arena needs.
  static Bytes memory_needed(const CpuWorkerSpec& spec);

  // `rig` outlives the device.
  CpuDevice(CpuWorkerSpec spec, Arena arena, CpuRig& rig);

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

  [[nodiscard]] CpuStageMemory& stage_memory(StageId stage) const {
    return rig_.stages.at({spec_.id, stage});
  }
  [[nodiscard]] Segment& segment(StageId stage) const { return *stage_memory(stage).segment; }
  [[nodiscard]] const std::vector<WorkerId>& peers(StageId stage) const;
  [[nodiscard]] bool is_last(StageId stage) const { return stage.value + 1 == spec_.stage_count; }

  CpuWorkerSpec spec_;
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
