#include "executor/batch_share.hpp"

#include "models/layers/synthetic_batch.hpp"

namespace pipeplan {
namespace {

BatchKey key_of(const BatchShare& share, std::int64_t iteration, std::int64_t micro_batch) {
  return {.seed = share.seed, .iteration = iteration, .micro_batch = share.first_micro_batch + micro_batch};
}

}  // namespace

std::span<const float> BatchSource::inputs(std::int64_t iteration, std::int64_t micro_batch) {
  if (share_.input_count == 0) return {};
  fill_inputs(share_.first_layer, key_of(share_, iteration, micro_batch), whole(share_.input_count));
  return own(share_.input_count);
}

std::span<const float> BatchSource::targets(std::int64_t iteration, std::int64_t micro_batch) {
  if (share_.target_count == 0) return {};
  fill_targets(share_.first_layer, share_.loss, key_of(share_, iteration, micro_batch),
               whole(share_.target_count));
  return own(share_.target_count);
}

std::span<float> BatchSource::whole(std::int64_t per_sample) {
  whole_.resize(static_cast<std::size_t>(per_sample * share_.micro_batch_size));
  return whole_;
}

std::span<const float> BatchSource::own(std::int64_t per_sample) const {
  return std::span(whole_).subspan(static_cast<std::size_t>(per_sample * share_.first_sample),
                                   static_cast<std::size_t>(per_sample * share_.sample_count));
}

}  // namespace pipeplan
