#include "tools/commands/show_devices.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "models/layers/core_pin.hpp"
#include "models/layers/kernel_build.hpp"
#include "profiler/cpu_profiler.hpp"

namespace pipeplan {
namespace {

std::string cpu_text() {
  const auto cores = usable_cores();
  return fmt::format("cpu   {}\n      cores {} usable: {}\n      kernels: {}\n", cpu_device_name(),
                     cores.size(), fmt::join(cores, ", "), kernel_build());
}

std::string gpu_text(const GpuDevice& gpu) {
  const std::string partition = gpu.smallest_partition_sms > 0
                                    ? fmt::format("green contexts from {} SMs on", gpu.smallest_partition_sms)
                                    : "no green contexts (driver too old)";
  const std::string peers =
      gpu.peers.empty() ? "none" : fmt::format("GPU {}", fmt::join(gpu.peers, ", GPU "));
  return fmt::format(
      "cuda  GPU {}: {}, compute capability {}\n      {} SMs, {}\n      memory {}, {} free\n"
      "      reaches directly: {}\n",
      gpu.index, gpu.name, gpu.compute_capability, gpu.sm_count, partition, display(gpu.memory),
      display(gpu.free_memory), peers);
}

std::string none_text(const Error& error) {
  const std::string where = error.where.empty() ? "" : fmt::format("{}: ", error.where);
  const std::string hint = error.hint.empty() ? "" : fmt::format("      hint: {}\n", error.hint);
  return fmt::format("cuda  none: {}{}\n{}", where, error.message, hint);
}

}  // namespace

std::string devices_text() {
  const auto backend = cuda_backend();
  if (!backend) return cpu_text() + none_text(backend.error());
  return cpu_text() + gpus_text((*backend)->devices(), (*backend)->version());
}

std::string gpus_text(const Result<std::vector<GpuDevice>>& devices, const std::string& version) {
  std::string text;
  if (!devices) text = none_text(devices.error());
  if (devices)
    for (const GpuDevice& gpu : *devices) text += gpu_text(gpu);
  return text + fmt::format("      {}\n", version);
}

}  // namespace pipeplan
