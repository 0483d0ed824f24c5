#pragma once

// The backend that the plug-in shows: devices, queues and the collector of CUDA. Making one asks nothing of a
// driver; every call answers where there is none.

#include "profiler/gpu/gpu_backend.hpp"

namespace pipeplan {

class CudaBackend : public GpuBackend {
 public:
  // Settings that CUDA reads from the environment before its first call, unless they are set: enough
  // hardware queues for all stages, and kernels loaded at once and not at their first launch.
  CudaBackend();

  Result<std::vector<GpuDevice>> devices() override;
  Result<std::vector<std::unique_ptr<GpuQueue>>> open(PartitionKind kind,
                                                      std::span<const PartRequest> requests) override;
  Result<std::unique_ptr<GpuCollector>> make_collector() override;
  [[nodiscard]] std::string version() const override;
};

}  // namespace pipeplan
