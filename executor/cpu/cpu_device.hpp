#pragma once

// One stage on one thread, pinned to one core: real layers, real tensors, real copies between stages. The
// thread makes its own memory, so that pages lie near its core, and allocates nothing while it runs.

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "executor/cpu/channel.hpp"
#include "executor/cpu/event_board.hpp"
#include "executor/device.hpp"
#include "models/layers/segment.hpp"
#include "models/layers/synthetic_batch.hpp"
#include "models/model_graph.hpp"

namespace pipeplan {

// What a stage is and is fed with.
struct CpuStage {
  StageId stage;
  std::int64_t stage_count = 1;
  std::int64_t first_layer = 0;
  std::span<const std::unique_ptr<RunnableLayer<float>>> layers;
  std::int64_t micro_batch_size = 1;
  std::int64_t micro_batch_count = 1;
  std::int64_t peak_in_flight = 1;
  std::int64_t activation_slots = 0;  // receive buffers from the stage before, 0 for the first stage
  std::int64_t gradient_slots = 0;    // from the stage behind, 0 for the last stage
  LayerSpec first_spec, last_spec;    // of the whole network: what its data looks like
  std::int64_t seed = 0;
  float learning_rate = 0.01F;
  std::optional<int> core;
};

// The queues into a stage, which its neighbours write to.
struct Inbox {
  Channel activations, gradients;
};

class CpuDevice : public Device {
 public:
  // `inboxes` and `events` are shared by all stages of a run and outlive them; `arena` is this stage's, big
  // enough.
  CpuDevice(CpuStage stage, Arena arena, PerId<StageId, Inbox>& inboxes, EventBoard& events);
  ~CpuDevice() override;

  void begin_iteration(std::int64_t number) override;
  void enqueue(const Command& command) override;
  void wait_all() override;
  [[nodiscard]] std::vector<Stamp> stamps() const override { return stamps_; }
  [[nodiscard]] RankMemory memory() const override;

  // For the proof of equivalence. Gradients are those before the last step; call while idle.
  [[nodiscard]] const std::vector<float>& losses() const { return losses_; }
  [[nodiscard]] const std::vector<std::vector<float>>& gradients() const { return gradients_; }
  [[nodiscard]] std::vector<std::vector<float>> parameters() const;
  void keep_gradients(bool keep) { keep_gradients_ = keep; }

 private:
  void work();
  void set_up();
  void run(const Command& command);
  void forward(const Command& command);
  void backward(const Command& command);
  void send(const Command& command);
  void step();
  void load_data(std::int64_t iteration);
  void note_memory(Nanoseconds at);
  [[nodiscard]] bool is_first() const { return stage_.stage.value == 0; }
  [[nodiscard]] bool is_last() const { return stage_.stage.value + 1 == stage_.stage_count; }

  CpuStage stage_;
  Arena arena_;
  PerId<StageId, Inbox>& inboxes_;
  EventBoard& events_;
  std::unique_ptr<Segment> segment_;
  std::vector<std::vector<float>> inputs_, targets_;  // per micro-batch, loaded before the iteration

  std::vector<Stamp> stamps_;
  std::vector<MemoryStep> memory_steps_;
  std::int64_t in_flight_ = 0;
  std::vector<float> losses_;
  std::vector<std::vector<float>> gradients_;
  bool keep_gradients_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<const Command*> queue_;
  bool busy_ = true;  // until set_up is done
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace pipeplan
