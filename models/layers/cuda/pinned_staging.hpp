#pragma once

// Pinned host memory through which a queue uploads, so that an upload neither waits for the queue nor reads
// the caller's memory later. Blocks of one size are reused once their copy has happened; only with all of
// them under way (64 MiB) does an upload wait for the oldest.

#include <cstddef>
#include <vector>

#include "models/layers/cuda/cuda_work.hpp"
#include "models/layers/cuda/handles.hpp"

namespace pipeplan {

class PinnedStaging {
 public:
  // Enqueues a copy of `bytes` from host memory; `from` is free again when it returns.
  void upload(CudaWork& work, const void* from, void* to, std::size_t bytes);

 private:
  struct Block {
    PinnedMemory memory;
    CudaEventOwner copied;
  };
  // Null after a failure.
  Block* take(CudaWork& work);
  Block* make(CudaWork& work);
  static bool is_free(CudaWork& work, const Block& block);

  std::vector<Block> blocks_;
  std::size_t next_ = 0;  // the one used longest ago
};

}  // namespace pipeplan
