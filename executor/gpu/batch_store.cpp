#include "executor/gpu/batch_store.hpp"

#include "models/layers/synthetic_batch.hpp"

namespace pipeplan {
namespace {

Bytes scalar_bytes(std::int64_t count) {
  return arena_bytes(Bytes{count * static_cast<std::int64_t>(sizeof(float))});
}

std::int64_t stride(const BatchShape& shape, std::int64_t per_sample) {
  return aligned_count<float>(per_sample * shape.sample_count);
}

float* take(Arena& region, std::int64_t count) {
  if (count == 0) return nullptr;
  return reinterpret_cast<float*>(region.allocate(scalar_bytes(count), MemoryItem::communication));
}

}  // namespace

Result<BatchStore> BatchStore::make(BatchShape shape, GpuQueue& queue, const std::string& where) {
  const std::int64_t count = shape.micro_batch_count;
  const std::int64_t data = count * (stride(shape, shape.input_count) + stride(shape, shape.target_count));
  const Bytes bytes = scalar_bytes(data) + scalar_bytes(count);
  PIPEPLAN_TRY(region, queue.reserve(bytes, where + ", data"));
  return BatchStore(std::move(shape), queue, std::move(region));
}

BatchStore::BatchStore(BatchShape shape, GpuQueue& queue, Arena region)
    : shape_(std::move(shape)), queue_(&queue), region_(std::move(region)) {
  inputs_ = take(region_, shape_.micro_batch_count * input_stride());
  targets_ = take(region_, shape_.micro_batch_count * target_stride());
  losses_ = take(region_, shape_.has_loss ? shape_.micro_batch_count : 0);
}

std::int64_t BatchStore::input_stride() const { return stride(shape_, shape_.input_count); }
std::int64_t BatchStore::target_stride() const { return stride(shape_, shape_.target_count); }

void BatchStore::load(std::int64_t iteration) {
  for (std::int64_t k = 0; k < shape_.micro_batch_count; ++k) {
    const BatchKey key{
        .seed = shape_.seed, .iteration = iteration, .micro_batch = shape_.first_micro_batch + k};
    if (shape_.input_count > 0) {
      whole_.resize(static_cast<std::size_t>(shape_.input_count * shape_.micro_batch_size));
      fill_inputs(shape_.first_layer, key, whole_);
      upload_share(shape_.input_count, inputs_ + k * input_stride());
    }
    if (shape_.target_count > 0) {
      whole_.resize(static_cast<std::size_t>(shape_.target_count * shape_.micro_batch_size));
      fill_targets(shape_.first_layer, shape_.loss, key, whole_);
      upload_share(shape_.target_count, targets_ + k * target_stride());
    }
  }
}

void BatchStore::upload_share(std::int64_t per_sample, float* to) {
  const auto first = static_cast<std::size_t>(per_sample * shape_.first_sample);
  const auto count = static_cast<std::size_t>(per_sample * shape_.sample_count);
  queue_->upload(std::span<const float>(whole_).subspan(first, count), to);
}

const float* BatchStore::inputs(std::int64_t micro_batch) const {
  return inputs_ + micro_batch * input_stride();
}
const float* BatchStore::targets(std::int64_t micro_batch) const {
  return targets_ + micro_batch * target_stride();
}

std::vector<float> BatchStore::download_losses() const {
  if (!shape_.has_loss) return {};
  std::vector<float> values(static_cast<std::size_t>(shape_.micro_batch_count));
  queue_->download(losses_, values);
  return values;
}

}  // namespace pipeplan
