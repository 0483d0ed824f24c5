#pragma once

// A part of a GPU: what all queues on it share. Parts are made together, as green contexts divide one device
// among them.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/layers/cuda/green_contexts.hpp"
#include "models/layers/cuda/handles.hpp"
#include "models/layers/gpu_queue.hpp"

namespace pipeplan {

// Names the call and CUDA's reason.
Result<void> check_cuda(cudaError_t status, const char* call, const std::string& where);

class CudaPart {
 public:
  // A stream on the part's SMs.
  [[nodiscard]] Result<CudaStream> make_stream(const std::string& where) const;
  // Makes the part's device the calling thread's.
  [[nodiscard]] cudaError_t select() const { return cudaSetDevice(device()); }
  [[nodiscard]] int device() const { return static_cast<int>(granted.device); }

  GpuPart granted;
  CudaPool pool;  // of the queues' arenas; keeps what it once had
  BlasOwner blas;
  std::optional<DriverFunctions> driver = {};  // green contexts alone
  GreenPart green = {};
};

using CudaParts = std::vector<std::shared_ptr<CudaPart>>;

// One part of `device` per request. `device` takes one request alone; sizes are for `green`.
Result<CudaParts> make_parts(PartitionKind kind, int device,
                             std::span<const std::optional<std::int64_t>> sm_counts);

// Lets each device of `parts` reach the others' memory directly, where the machine can; elsewhere copies
// between them go through host memory.
Result<void> connect_peers(const CudaParts& parts);

}  // namespace pipeplan
