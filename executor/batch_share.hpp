#pragma once

// The part of the network's synthetic data that one worker reads: of every micro-batch of its copy of the
// pipeline the samples that its replica has. The one place that cuts them out.

#include <cstdint>
#include <span>
#include <vector>

#include "models/layers/layer_spec.hpp"

namespace pipeplan {

// Counts are scalars per sample.
struct BatchShare {
  LayerSpec first_layer, loss;  // of the whole network: what its data looks like
  std::int64_t seed = 0;
  std::int64_t micro_batch_count = 1;
  std::int64_t first_micro_batch = 0;  // of the worker's copy of the pipeline, among all copies
  std::int64_t micro_batch_size = 1;   // whole
  std::int64_t first_sample = 0;       // the worker's share of it
  std::int64_t sample_count = 1;
  std::int64_t input_count = 0;   // 0: another stage sends the input
  std::int64_t target_count = 0;  // 0: no loss here
};

class BatchSource {
 public:
  explicit BatchSource(BatchShare share) : share_(std::move(share)) {}

  [[nodiscard]] const BatchShare& share() const { return share_; }
  // Of one micro-batch of the copy, counted from 0; empty where the worker reads none. Valid until the next
  // call.
  std::span<const float> inputs(std::int64_t iteration, std::int64_t micro_batch);
  std::span<const float> targets(std::int64_t iteration, std::int64_t micro_batch);

 private:
  // Room for a whole micro-batch, and of that the worker's samples.
  std::span<float> whole(std::int64_t per_sample);
  [[nodiscard]] std::span<const float> own(std::int64_t per_sample) const;

  BatchShare share_;
  std::vector<float> whole_;
};

}  // namespace pipeplan
