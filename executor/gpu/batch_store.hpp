#pragma once

// The synthetic data of one worker's iteration in its processor's memory, uploaded before the iteration, and
// the losses that it leaves, downloaded after it. Both lie in a region of their own, so that the stage's
// arena holds what a training step itself takes and nothing else.

#include <cstdint>
#include <string>
#include <vector>

#include "models/layers/gpu_queue.hpp"
#include "models/layers/layer_spec.hpp"

namespace pipeplan {

// What a worker reads; counts are scalars per sample.
struct BatchShape {
  LayerSpec first_layer, loss;  // of the whole network: what its data looks like
  std::int64_t seed = 0;
  std::int64_t micro_batch_count = 1;
  std::int64_t first_micro_batch = 0;  // of the worker's copy of the pipeline, among all copies
  std::int64_t micro_batch_size = 1;   // whole
  std::int64_t first_sample = 0;       // the worker's share of it
  std::int64_t sample_count = 1;
  std::int64_t input_count = 0;   // 0: another stage sends the input
  std::int64_t target_count = 0;  // 0: no loss here
  bool has_loss = false;
};

class BatchStore {
 public:
  // `queue` outlives the store; `where` names the stage in the error that says how much memory there is.
  static Result<BatchStore> make(BatchShape shape, GpuQueue& queue, const std::string& where);

  void load(std::int64_t iteration);
  [[nodiscard]] const float* inputs(std::int64_t micro_batch) const;
  [[nodiscard]] const float* targets(std::int64_t micro_batch) const;
  [[nodiscard]] float* loss(std::int64_t micro_batch) const { return losses_ + micro_batch; }
  // Waits for the queue. Per micro-batch; empty without the loss layer.
  [[nodiscard]] std::vector<float> download_losses() const;

 private:
  BatchStore(BatchShape shape, GpuQueue& queue, Arena region);
  [[nodiscard]] std::int64_t input_stride() const;
  [[nodiscard]] std::int64_t target_stride() const;
  // Uploads the worker's samples of a micro-batch that `whole_` holds.
  void upload_share(std::int64_t per_sample, float* to);

  BatchShape shape_;
  GpuQueue* queue_;
  Arena region_;
  float *inputs_ = nullptr, *targets_ = nullptr, *losses_ = nullptr;
  std::vector<float> whole_;  // on the host, one micro-batch
};

}  // namespace pipeplan
