#pragma once

// The door to CUDA: a plug-in (libpipeplan_cuda.so) beside the program, loaded when a GPU is asked for. The
// program itself needs no CUDA library, and the plug-in needs neither driver nor CUPTI to be loaded: it says
// what is missing.

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/layers/gpu_queue.hpp"
#include "profiler/gpu/trace.hpp"

namespace pipeplan {

struct GpuDevice {
  std::int64_t index = 0;
  std::string name;
  Bytes memory, free_memory;
  std::int64_t sm_count = 0;
  std::string compute_capability;           // "9.0"
  std::int64_t smallest_partition_sms = 0;  // of a green context; 0: the driver has none
  std::vector<std::int64_t> peers;          // devices whose memory it reaches directly
};

struct PartRequest {
  std::string name;  // of the queue, for messages: "stage 2"
  std::int64_t device = 0;
  std::optional<std::int64_t> sm_count = {};  // green: how many; open: an equal share of what is left
};

// Collects what the GPU does. Between start and stop it must hear of launches as an observer of the queues.
class GpuCollector : public LaunchObserver {
 public:
  virtual Result<void> start() = 0;
  // Brackets one iteration; the queues are idle at both ends.
  virtual void begin_iteration(std::int64_t number) = 0;
  virtual void end_iteration() = 0;
  // Throws away what was collected so far (warm-ups).
  virtual Result<void> discard() = 0;
  virtual Result<GpuTrace> stop() = 0;
};

class GpuBackend {
 public:
  virtual ~GpuBackend() = default;
  // ErrorCode::unavailable, with the reason, where there is no device or no driver.
  virtual Result<std::vector<GpuDevice>> devices() = 0;
  // One queue per request. `device` gives each the whole device, `streams` a stream on it, `green` disjoint
  // sets of SMs.
  virtual Result<std::vector<std::unique_ptr<GpuQueue>>> open(PartitionKind kind,
                                                              std::span<const PartRequest> requests) = 0;
  // Unavailable where CUPTI is missing, refused or taken by another tool; the hint says how to get it.
  virtual Result<std::unique_ptr<GpuCollector>> make_collector() = 0;
  // "CUDA runtime 13.0, driver 13.0, cuBLASLt 13.1".
  [[nodiscard]] virtual std::string version() const = 0;
};

// The plug-in's backend, loaded once; unavailable where there is none, naming the places looked at. The
// environment variable PIPEPLAN_CUDA_PLUGIN names another file.
Result<GpuBackend*> cuda_backend();

// The same from the first of `places` that is there, loaded anew.
Result<GpuBackend*> load_gpu_backend(const std::vector<std::string>& places);

}  // namespace pipeplan
