#pragma once

// A GPU that is none: queues that run the CPU's layers at once, on a clock that only counts. Each queue has a
// time of its own; work moves it on by what HostGpuOptions says, waiting for an event moves it up to the
// event's, and the host's time moves up to a queue's when it synchronises with it. So every duration is known
// beforehand. Work happens in the order in which it is enqueued: a forgotten wait shows in times, not in
// values.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "profiler/gpu/gpu_backend.hpp"

namespace pipeplan::test {

// What a begin() ... end() on a queue runs.
struct HostGpuWork {
  LaunchLabel label;
  std::int64_t batch = 0;  // of the layer that ran; 0: none did (optimizer steps, transfers)
  std::int64_t sm_count = 0;
};

// 1 us for each layer and pass, 500 ns for an optimizer step, nothing for the rest.
Nanoseconds default_host_gpu_time(const HostGpuWork& work);

struct HostGpuOptions {
  std::int64_t device_count = 1;
  std::int64_t sm_count = 132;  // handed out in groups of 8
  Bytes memory{std::int64_t{1} << 30};

  // Kernel time of one launch; 0: no kernel.
  std::function<Nanoseconds(const HostGpuWork&)> time = default_host_gpu_time;
  Nanoseconds launch_gap{};     // the queue idles before each kernel
  Nanoseconds collector_gap{};  // and so much more while a collector runs
  double busy_factor = 1;       // kernels take so many times longer while another queue is busy
  // zero, fill, copy, add; absent: they take no time.
  std::optional<BytesPerSecond> memory_bandwidth = {};
  Nanoseconds send_latency{};
  std::optional<BytesPerSecond> send_bandwidth = {};

  std::int64_t extra_scratch = 0;  // scalars that each layer needs beyond its CPU twin's

  std::optional<Error> collector_refusal = {};  // of make_collector
  std::optional<Error> start_refusal = {};      // of a collector's start
  std::int64_t dropped_records = 0;
  std::int64_t stray_kernels = 0;  // per iteration, launched by nobody

  // The n-th call on the backend fails, from 1; 0: none does.
  std::int64_t failing_launch = 0;
  std::int64_t failing_synchronize = 0;
};

struct HostGpuState;

class HostGpu final : public GpuBackend {
 public:
  explicit HostGpu(HostGpuOptions options = {});

  Result<std::vector<GpuDevice>> devices() override;
  Result<std::vector<std::unique_ptr<GpuQueue>>> open(PartitionKind kind,
                                                      std::span<const PartRequest> requests) override;
  Result<std::unique_ptr<GpuCollector>> make_collector() override;
  [[nodiscard]] std::string version() const override { return "host GPU 1.0"; }

  // May be changed at any time.
  HostGpuOptions& options();
  // The host's own time, which starts at 1 ms.
  [[nodiscard]] Nanoseconds now() const;
  // How often the host has waited for a queue: synchronize() and download().
  [[nodiscard]] std::int64_t host_wait_count() const;
  // What a GPU would have let pass in silence: waits for events that nobody recorded, layers run outside a
  // launch, nested launches, iterations that end while a queue is busy. Empty in a sound program.
  [[nodiscard]] const std::vector<std::string>& misuses() const;

 private:
  std::shared_ptr<HostGpuState> state_;
};

}  // namespace pipeplan::test
