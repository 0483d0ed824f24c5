#include "executor/gpu/batch_store.hpp"

namespace pipeplan {
namespace {

Bytes scalar_bytes(std::int64_t count) {
  return arena_bytes(Bytes{count * static_cast<std::int64_t>(sizeof(float))});
}

std::int64_t stride(const BatchShare& share, std::int64_t per_sample) {
  return aligned_count<float>(per_sample * share.sample_count);
}

float* take(Arena& region, std::int64_t count) {
  if (count == 0) return nullptr;
  return reinterpret_cast<float*>(region.allocate(scalar_bytes(count), MemoryItem::communication));
}

}  // namespace

Result<BatchStore> BatchStore::make(BatchShare share, GpuQueue& queue, const std::string& where) {
  const std::int64_t count = share.micro_batch_count;
  const std::int64_t data = count * (stride(share, share.input_count) + stride(share, share.target_count));
  const Bytes bytes = scalar_bytes(data) + scalar_bytes(count);
  PIPEPLAN_TRY(region, queue.reserve(bytes, where + ", data"));
  return BatchStore(std::move(share), queue, std::move(region));
}

BatchStore::BatchStore(BatchShare share, GpuQueue& queue, Arena region)
    : source_(std::move(share)), queue_(&queue), region_(std::move(region)) {
  const std::int64_t count = source_.share().micro_batch_count;
  inputs_ = take(region_, count * input_stride());
  targets_ = take(region_, count * target_stride());
  losses_ = take(region_, count);
}

std::int64_t BatchStore::input_stride() const { return stride(source_.share(), source_.share().input_count); }
std::int64_t BatchStore::target_stride() const {
  return stride(source_.share(), source_.share().target_count);
}

void BatchStore::load(std::int64_t iteration) {
  for (std::int64_t k = 0; k < source_.share().micro_batch_count; ++k) {
    const std::span<const float> inputs = source_.inputs(iteration, k);
    if (!inputs.empty()) queue_->upload(inputs, inputs_ + k * input_stride());
    const std::span<const float> targets = source_.targets(iteration, k);
    if (!targets.empty()) queue_->upload(targets, targets_ + k * target_stride());
  }
}

const float* BatchStore::inputs(std::int64_t micro_batch) const {
  return inputs_ + micro_batch * input_stride();
}
const float* BatchStore::targets(std::int64_t micro_batch) const {
  return targets_ + micro_batch * target_stride();
}

std::vector<float> BatchStore::download_losses() const {
  std::vector<float> values(static_cast<std::size_t>(source_.share().micro_batch_count));
  queue_->download(losses_, values);
  return values;
}

}  // namespace pipeplan
