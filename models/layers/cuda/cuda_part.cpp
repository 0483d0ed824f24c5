#include "models/layers/cuda/cuda_part.hpp"

#include <fmt/format.h>

#include <limits>

#include "models/base/assert.hpp"

namespace pipeplan {
namespace {

std::string gpu_name(int device) { return fmt::format("GPU {}", device); }

// A pool never gives memory back to the driver by itself: no allocation of a training loop waits for it.
Result<CudaPool> make_pool(int device) {
  cudaMemPoolProps wanted{};
  wanted.allocType = cudaMemAllocationTypePinned;
  wanted.location.type = cudaMemLocationTypeDevice;
  wanted.location.id = device;
  cudaMemPool_t made{};
  PIPEPLAN_CHECK(check_cuda(cudaMemPoolCreate(&made, &wanted), "cudaMemPoolCreate", gpu_name(device)));
  CudaPool pool(made);
  std::uint64_t kept = std::numeric_limits<std::uint64_t>::max();
  PIPEPLAN_CHECK(check_cuda(cudaMemPoolSetAttribute(made, cudaMemPoolAttrReleaseThreshold, &kept),
                            "cudaMemPoolSetAttribute", gpu_name(device)));
  return pool;
}

Result<BlasOwner> make_blas(int device) {
  cublasLtHandle_t made{};
  const cublasStatus_t status = cublasLtCreate(&made);
  if (status != CUBLAS_STATUS_SUCCESS)
    return fail(ErrorCode::unavailable, gpu_name(device),
                fmt::format("cublasLtCreate failed: {}", cublasLtGetStatusString(status)));
  return BlasOwner(made);
}

Result<GpuPart> whole_device(PartitionKind kind, int device) {
  cudaDeviceProp properties{};
  PIPEPLAN_CHECK(
      check_cuda(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties", gpu_name(device)));
  const std::int64_t sm_count = properties.multiProcessorCount;
  return GpuPart{device, properties.name, kind, sm_count, sm_count};
}

Result<std::shared_ptr<CudaPart>> make_part(const GpuPart& granted) {
  auto part = std::make_shared<CudaPart>();
  part->granted = granted;
  PIPEPLAN_TRY(pool, make_pool(part->device()));
  PIPEPLAN_TRY(blas, make_blas(part->device()));
  part->pool = std::move(pool);
  part->blas = std::move(blas);
  return part;
}

// Puts each part into a green context of its own.
Result<void> divide(CudaParts& parts, int device, std::span<const std::optional<std::int64_t>> sm_counts) {
  PIPEPLAN_TRY(driver, fetch_driver_functions());
  PIPEPLAN_TRY(green, make_green_parts(driver, device, sm_counts));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    parts[i]->driver = driver;
    parts[i]->granted.sm_count = green[i].sm_count;
    parts[i]->green = std::move(green[i]);
  }
  return {};
}

Result<void> let_reach(const CudaPart& from, const CudaPart& to) {
  int can = 0;
  PIPEPLAN_CHECK(check_cuda(cudaDeviceCanAccessPeer(&can, from.device(), to.device()),
                            "cudaDeviceCanAccessPeer", gpu_name(from.device())));
  if (can == 0) return {};
  PIPEPLAN_CHECK(check_cuda(from.select(), "cudaSetDevice", gpu_name(from.device())));
  const cudaError_t enabled = cudaDeviceEnablePeerAccess(to.device(), 0);
  if (enabled == cudaErrorPeerAccessAlreadyEnabled)
    (void)cudaGetLastError();
  else
    PIPEPLAN_CHECK(check_cuda(enabled, "cudaDeviceEnablePeerAccess", gpu_name(from.device())));
  // Peer access does not cover a pool's memory: the pool has a list of its own.
  cudaMemAccessDesc access{};
  access.location.type = cudaMemLocationTypeDevice;
  access.location.id = from.device();
  access.flags = cudaMemAccessFlagsProtReadWrite;
  return check_cuda(cudaMemPoolSetAccess(to.pool.get(), &access, 1), "cudaMemPoolSetAccess",
                    gpu_name(to.device()));
}

}  // namespace

Result<void> check_cuda(cudaError_t status, const char* call, const std::string& where) {
  if (status == cudaSuccess) return {};
  (void)cudaGetLastError();  // it would show in the next launch that is checked
  return fail(ErrorCode::unavailable, where,
              fmt::format("{} failed: {} ({})", call, cudaGetErrorString(status), cudaGetErrorName(status)));
}

Result<CudaStream> CudaPart::make_stream(const std::string& where) const {
  PIPEPLAN_CHECK(check_cuda(select(), "cudaSetDevice", where));
  if (driver) return make_green_stream(*driver, green, where);
  cudaStream_t made{};
  PIPEPLAN_CHECK(check_cuda(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking),
                            "cudaStreamCreateWithFlags", where));
  return CudaStream(made);
}

Result<CudaParts> make_parts(PartitionKind kind, int device,
                             std::span<const std::optional<std::int64_t>> sm_counts) {
  if (kind == PartitionKind::device && sm_counts.size() > 1)
    return bad_usage(fmt::format("{} queues want the whole of GPU {}", sm_counts.size(), device),
                     "use green contexts or plain streams to share it");
  PIPEPLAN_CHECK(check_cuda(cudaSetDevice(device), "cudaSetDevice", gpu_name(device)));
  PIPEPLAN_CHECK(check_cuda(cudaFree(nullptr), "cudaFree", gpu_name(device)));  // the primary context
  PIPEPLAN_TRY(whole, whole_device(kind, device));
  CudaParts parts;
  for (std::size_t i = 0; i < sm_counts.size(); ++i) {
    PIPEPLAN_TRY(part, make_part(whole));
    parts.push_back(std::move(part));
  }
  if (kind == PartitionKind::green) PIPEPLAN_CHECK(divide(parts, device, sm_counts));
  return parts;
}

Result<void> connect_peers(const CudaParts& parts) {
  for (const auto& from : parts)
    for (const auto& to : parts)
      if (from->device() != to->device()) PIPEPLAN_CHECK(let_reach(*from, *to));
  return {};
}

}  // namespace pipeplan
