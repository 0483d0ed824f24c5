#pragma once

// The synthetic data of one worker's iteration in its memory, made before the iteration begins.

#include <cstdint>
#include <span>
#include <vector>

#include "executor/batch_share.hpp"

namespace pipeplan {

class Batches {
 public:
  explicit Batches(BatchShare share);

  void load(std::int64_t iteration);
  // Of one micro-batch of the copy, counted from 0.
  [[nodiscard]] std::span<const float> inputs(std::int64_t micro_batch) const;
  [[nodiscard]] std::span<const float> targets(std::int64_t micro_batch) const;

 private:
  BatchSource source_;
  std::vector<std::vector<float>> inputs_, targets_;  // per micro-batch
};

}  // namespace pipeplan
