#pragma once

// The synthetic data of one worker's iteration in its processor's memory, uploaded before the iteration, and
// the losses that it leaves, downloaded after it. Both lie in a region of their own, so that the stage's
// arena holds what a training step itself takes and nothing else.

#include <cstdint>
#include <string>
#include <vector>

#include "executor/batch_share.hpp"
#include "models/layers/gpu_queue.hpp"

namespace pipeplan {

class BatchStore {
 public:
  // `queue` outlives the store; `where` names the stage in the error that says how much memory there is.
  static Result<BatchStore> make(BatchShare share, GpuQueue& queue, const std::string& where);

  void load(std::int64_t iteration);
  [[nodiscard]] const float* inputs(std::int64_t micro_batch) const;
  [[nodiscard]] const float* targets(std::int64_t micro_batch) const;
  [[nodiscard]] float* loss(std::int64_t micro_batch) const { return losses_ + micro_batch; }
  // Of a worker that has the loss layer, per micro-batch. Waits for the queue.
  [[nodiscard]] std::vector<float> download_losses() const;

 private:
  BatchStore(BatchShare share, GpuQueue& queue, Arena region);
  [[nodiscard]] std::int64_t input_stride() const;
  [[nodiscard]] std::int64_t target_stride() const;

  BatchSource source_;
  GpuQueue* queue_;
  Arena region_;
  float *inputs_ = nullptr, *targets_ = nullptr, *losses_ = nullptr;
};

}  // namespace pipeplan
