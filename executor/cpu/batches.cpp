#include "executor/cpu/batches.hpp"

namespace pipeplan {

Batches::Batches(BatchShare share) : source_(std::move(share)) {
  const auto count = static_cast<std::size_t>(source_.share().micro_batch_count);
  inputs_.resize(count);
  targets_.resize(count);
}

void Batches::load(std::int64_t iteration) {
  for (std::size_t k = 0; k < inputs_.size(); ++k) {
    const auto micro_batch = static_cast<std::int64_t>(k);
    const std::span<const float> inputs = source_.inputs(iteration, micro_batch);
    inputs_[k].assign(inputs.begin(), inputs.end());
    const std::span<const float> targets = source_.targets(iteration, micro_batch);
    targets_[k].assign(targets.begin(), targets.end());
  }
}

std::span<const float> Batches::inputs(std::int64_t micro_batch) const {
  return inputs_.at(static_cast<std::size_t>(micro_batch));
}
std::span<const float> Batches::targets(std::int64_t micro_batch) const {
  return targets_.at(static_cast<std::size_t>(micro_batch));
}

}  // namespace pipeplan
