#pragma once

// The synthetic data of one worker's iteration: of every micro-batch of its copy the samples that its replica
// has, made before the iteration begins.

#include <cstdint>
#include <span>
#include <vector>

#include "models/layers/layer_spec.hpp"
#include "models/layers/synthetic_batch.hpp"

namespace pipeplan {

// What a worker reads; counts are scalars per sample.
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

class Batches {
 public:
  explicit Batches(BatchShare share);

  void load(std::int64_t iteration);
  // Of one micro-batch of the copy, counted from 0.
  [[nodiscard]] std::span<const float> inputs(std::int64_t micro_batch) const;
  [[nodiscard]] std::span<const float> targets(std::int64_t micro_batch) const;

 private:
  // This worker's samples of a whole micro-batch.
  [[nodiscard]] std::vector<float> share_of(const std::vector<float>& whole, std::int64_t per_sample) const;

  BatchShare share_;
  std::vector<std::vector<float>> inputs_, targets_;  // per micro-batch
};

}  // namespace pipeplan
