#include "models/layers/cuda/pinned_staging.hpp"

#include <algorithm>
#include <cstring>

namespace pipeplan {
namespace {

constexpr std::size_t block_bytes = 4 << 20;
constexpr std::size_t most_blocks = 16;

}  // namespace

void PinnedStaging::upload(CudaWork& work, const void* from, void* to, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes && work.good(); done += block_bytes) {
    const std::size_t piece = std::min(block_bytes, bytes - done);
    Block* block = take(work);
    if (block == nullptr) return;
    std::memcpy(block->memory.get(), static_cast<const char*>(from) + done, piece);
    work.check(cudaMemcpyAsync(static_cast<char*>(to) + done, block->memory.get(), piece,
                               cudaMemcpyHostToDevice, work.stream),
               "cudaMemcpyAsync to the device");
    work.check(cudaEventRecord(block->copied.get(), work.stream), "cudaEventRecord");
  }
}

PinnedStaging::Block* PinnedStaging::take(CudaWork& work) {
  const bool all_made = blocks_.size() == most_blocks;
  if (blocks_.empty() || (!all_made && !is_free(work, blocks_[next_]))) return make(work);
  Block& block = blocks_[next_];
  next_ = (next_ + 1) % blocks_.size();
  return work.check(cudaEventSynchronize(block.copied.get()), "cudaEventSynchronize") ? &block : nullptr;
}

// Goes in before the oldest, as the youngest: the order of use stays a ring.
PinnedStaging::Block* PinnedStaging::make(CudaWork& work) {
  void* memory = nullptr;
  work.check(cudaMallocHost(&memory, block_bytes), "cudaMallocHost");
  cudaEvent_t copied{};
  work.check(cudaEventCreateWithFlags(&copied, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  Block block{PinnedMemory(memory), CudaEventOwner(copied)};
  if (!work.good()) return nullptr;
  const auto made = blocks_.insert(blocks_.begin() + static_cast<std::ptrdiff_t>(next_), std::move(block));
  next_ = (next_ + 1) % blocks_.size();
  return &*made;
}

bool PinnedStaging::is_free(CudaWork& work, const Block& block) {
  const cudaError_t status = cudaEventQuery(block.copied.get());
  if (status != cudaErrorNotReady) return work.check(status, "cudaEventQuery");
  (void)cudaGetLastError();  // no failure, but it would show in the next launch that is checked
  return false;
}

}  // namespace pipeplan
