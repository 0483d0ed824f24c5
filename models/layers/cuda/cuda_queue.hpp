#pragma once

// A queue on a part of a GPU: a stream, the workspace of its products, and an arena's memory from the part's
// pool. Destroying it waits for nothing; synchronize() first.

#include <memory>
#include <string>

#include "models/layers/cuda/cuda_part.hpp"
#include "models/layers/cuda/cuda_work.hpp"
#include "models/layers/cuda/pinned_staging.hpp"
#include "models/layers/gpu_queue.hpp"

namespace pipeplan {

class CudaQueue : public GpuQueue {
 public:
  // `workspace_bytes` of the products; a queue for copies needs none.
  static Result<std::unique_ptr<GpuQueue>> make(const std::string& name, std::shared_ptr<CudaPart> part,
                                                std::size_t workspace_bytes);

  [[nodiscard]] const GpuPart& part() const override { return part_->granted; }
  Result<std::unique_ptr<GpuQueue>> make_sibling(const std::string& name) override;

  Result<std::unique_ptr<RunnableLayer<float>>> make_layer(const LayerSpec& spec,
                                                           const std::string& where) override;
  Result<Arena> reserve(Bytes capacity, const std::string& where) override;

  void zero(float* place, std::int64_t count) override;
  void fill(float* place, std::int64_t count, float value) override;
  void copy(const float* from, float* to, std::int64_t count) override;
  void add(const float* from, float* to, std::int64_t count) override;
  void upload(std::span<const float> from, float* to) override;
  void download(const float* from, std::span<float> to) override;
  void step(const Optimizer& optimizer, std::int64_t number, std::int64_t count, float* parameters,
            float* gradients, float* state) override;
  void begin(const LaunchLabel& label) override;
  void end() override;

  Result<std::unique_ptr<GpuEvent>> make_event(EventUse use) override;
  void record(GpuEvent& event) override;
  void wait(const GpuEvent& event) override;
  [[nodiscard]] Result<Nanoseconds> elapsed(const GpuEvent& from, const GpuEvent& to) const override;
  void send(const float* from, GpuQueue& target, float* to, std::int64_t count) override;
  void idle(Nanoseconds duration) override;
  void set_observer(LaunchObserver* observer) override { observer_ = observer; }
  Result<void> synchronize() override;
  [[nodiscard]] Result<Bytes> pool_high_water() const override;
  Result<std::vector<std::int64_t>> sm_numbers() override;

 private:
  CudaQueue(const std::string& name, std::shared_ptr<CudaPart> part);
  // Whether there is anything to enqueue, with the part's device made the thread's.
  bool ready(std::int64_t count = 1);
  Failure too_little_memory(Bytes capacity, cudaError_t status, const std::string& where) const;

  std::string name_;
  std::shared_ptr<CudaPart> part_;
  CudaWork work_;
  DeviceMemory workspace_;
  PinnedStaging staging_;
  CudaStream stream_;  // after all that its work touches, so that it goes first
  LaunchObserver* observer_ = nullptr;
};

}  // namespace pipeplan
