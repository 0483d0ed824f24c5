#include "profiler/cuda/cuda_backend.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <set>

#include "models/layers/cuda/cuda_queue.hpp"
#include "profiler/cuda/cupti_collector.hpp"

namespace pipeplan {
namespace {

constexpr std::size_t product_workspace_bytes = 32 << 20;

std::string dotted(int version) {
  return version == 0 ? "none" : fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string driver_version() {
  int version = 0;
  return cudaDriverGetVersion(&version) == cudaSuccess ? dotted(version) : "unknown";
}

// Without a driver CUDA answers 35 (driver too old) and not 100 (no device): both mean that there is no GPU,
// as does every other refusal to count them.
Result<int> device_count() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess && count > 0) return count;
  (void)cudaGetLastError();
  return fail(ErrorCode::unavailable, {},
              fmt::format("no CUDA device: {} (error {}, driver {})", cudaGetErrorString(status),
                          static_cast<int>(status), driver_version()),
              "nvidia-smi shows whether there is a GPU and a driver of CUDA 13 (580 or later)");
}

Result<std::vector<std::int64_t>> peers_of(int device, int count) {
  std::vector<std::int64_t> peers;
  for (int other = 0; other < count; ++other) {
    int can = 0;
    if (other != device)
      PIPEPLAN_CHECK(check_cuda(cudaDeviceCanAccessPeer(&can, device, other), "cudaDeviceCanAccessPeer",
                                fmt::format("GPU {}", device)));
    if (can != 0) peers.push_back(other);
  }
  return peers;
}

Result<GpuDevice> describe(int device, int count) {
  const std::string where = fmt::format("GPU {}", device);
  cudaDeviceProp properties{};
  std::size_t free = 0, all = 0;
  PIPEPLAN_CHECK(check_cuda(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties", where));
  PIPEPLAN_CHECK(check_cuda(cudaSetDevice(device), "cudaSetDevice", where));
  PIPEPLAN_CHECK(check_cuda(cudaMemGetInfo(&free, &all), "cudaMemGetInfo", where));
  PIPEPLAN_TRY(peers, peers_of(device, count));
  return GpuDevice{device,
                   properties.name,
                   Bytes{static_cast<std::int64_t>(all)},
                   Bytes{static_cast<std::int64_t>(free)},
                   properties.multiProcessorCount,
                   fmt::format("{}.{}", properties.major, properties.minor),
                   smallest_green_part(device),
                   peers};
}

Result<void> check_requests(std::span<const PartRequest> requests, int count) {
  for (const PartRequest& request : requests)
    if (request.device < 0 || request.device >= count)
      return fail(ErrorCode::unavailable, request.name,
                  fmt::format("wants GPU {}, but there are {}, counted from 0", request.device, count));
  return {};
}

// In the order of the requests; each device's are made together.
Result<CudaParts> parts_of(PartitionKind kind, std::span<const PartRequest> requests) {
  CudaParts parts(requests.size());
  std::set<std::int64_t> devices;
  for (const PartRequest& request : requests) devices.insert(request.device);
  for (const std::int64_t device : devices) {
    std::vector<std::size_t> places;
    std::vector<std::optional<std::int64_t>> sm_counts;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      if (requests[i].device != device) continue;
      places.push_back(i);
      sm_counts.push_back(requests[i].sm_count);
    }
    PIPEPLAN_TRY(made, make_parts(kind, static_cast<int>(device), sm_counts));
    for (std::size_t i = 0; i < places.size(); ++i) parts[places[i]] = made[i];
  }
  return parts;
}

}  // namespace

CudaBackend::CudaBackend() {
  (void)::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  (void)::setenv("CUDA_MODULE_LOADING", "EAGER", 0);
}

Result<std::vector<GpuDevice>> CudaBackend::devices() {
  PIPEPLAN_TRY(count, device_count());
  std::vector<GpuDevice> devices;
  for (int device = 0; device < count; ++device) {
    PIPEPLAN_TRY(described, describe(device, count));
    devices.push_back(described);
  }
  return devices;
}

Result<std::vector<std::unique_ptr<GpuQueue>>> CudaBackend::open(PartitionKind kind,
                                                                 std::span<const PartRequest> requests) {
  PIPEPLAN_TRY(count, device_count());
  PIPEPLAN_CHECK(check_requests(requests, count));
  PIPEPLAN_TRY(parts, parts_of(kind, requests));
  PIPEPLAN_CHECK(connect_peers(parts));
  std::vector<std::unique_ptr<GpuQueue>> queues;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    PIPEPLAN_TRY(queue, CudaQueue::make(requests[i].name, parts[i], product_workspace_bytes));
    queues.push_back(std::move(queue));
  }
  return queues;
}

Result<std::unique_ptr<GpuCollector>> CudaBackend::make_collector() {
  PIPEPLAN_CHECK(device_count());
  return make_cupti_collector();
}

std::string CudaBackend::version() const {
  int runtime = 0;
  (void)cudaRuntimeGetVersion(&runtime);
  const std::size_t blas = cublasLtGetVersion();
  return fmt::format("CUDA runtime {}, driver {}, cuBLASLt {}.{}", dotted(runtime), driver_version(),
                     blas / 10000, blas % 10000 / 100);
}

}  // namespace pipeplan
