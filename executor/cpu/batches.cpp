#include "executor/cpu/batches.hpp"

namespace pipeplan {

Batches::Batches(BatchShare share) : share_(std::move(share)) {
  const auto count = static_cast<std::size_t>(share_.micro_batch_count);
  inputs_.resize(count);
  targets_.resize(count);
}

void Batches::load(std::int64_t iteration) {
  const auto whole_count = [&](std::int64_t per_sample) {
    return static_cast<std::size_t>(per_sample * share_.micro_batch_size);
  };
  for (std::size_t k = 0; k < inputs_.size(); ++k) {
    const BatchKey key{.seed = share_.seed,
                       .iteration = iteration,
                       .micro_batch = share_.first_micro_batch + static_cast<std::int64_t>(k)};
    if (share_.input_count > 0) {
      std::vector<float> whole(whole_count(share_.input_count));
      fill_inputs(share_.first_layer, key, whole);
      inputs_[k] = share_of(whole, share_.input_count);
    }
    if (share_.target_count > 0) {
      std::vector<float> whole(whole_count(share_.target_count));
      fill_targets(share_.first_layer, share_.loss, key, whole);
      targets_[k] = share_of(whole, share_.target_count);
    }
  }
}

std::span<const float> Batches::inputs(std::int64_t micro_batch) const {
  return inputs_.at(static_cast<std::size_t>(micro_batch));
}
std::span<const float> Batches::targets(std::int64_t micro_batch) const {
  return targets_.at(static_cast<std::size_t>(micro_batch));
}

std::vector<float> Batches::share_of(const std::vector<float>& whole, std::int64_t per_sample) const {
  const auto begin = whole.begin() + static_cast<std::ptrdiff_t>(per_sample * share_.first_sample);
  return {begin, begin + static_cast<std::ptrdiff_t>(per_sample * share_.sample_count)};
}

}  // namespace pipeplan
