#include "models/layers/cuda/driver_functions.hpp"

#include <cuda_runtime.h>
#include <fmt/format.h>

namespace pipeplan {
namespace {

// `version`: of CUDA, as major * 1000 + minor * 10, in which the function's form came.
template<class Function>
Result<void> fetch(Function& function, const char* name, unsigned version) {
  cudaDriverEntryPointQueryResult found{};
  void* address = nullptr;
  const cudaError_t status =
      cudaGetDriverEntryPointByVersion(name, &address, version, cudaEnableDefault, &found);
  if (status == cudaSuccess && found == cudaDriverEntryPointSuccess && address != nullptr) {
    function = reinterpret_cast<Function>(address);
    return {};
  }
  (void)cudaGetLastError();  // it would show in the next call that is checked
  const char* reason = status != cudaSuccess ? cudaGetErrorString(status) : "the driver is older";
  return fail(ErrorCode::unavailable, "green contexts",
              fmt::format("the driver has no {} of CUDA {}.{}: {}", name, version / 1000, version % 1000 / 10,
                          reason),
              "use plain streams, or a driver of the 560 series or later");
}

}  // namespace

Result<void> DriverFunctions::check(CUresult status, const char* call, const std::string& where) const {
  if (status == CUDA_SUCCESS) return {};
  const char* reason = nullptr;
  error_string(status, &reason);
  return fail(ErrorCode::unavailable, where,
              fmt::format("{} failed: {} (error {})", call, reason != nullptr ? reason : "unknown",
                          static_cast<int>(status)));
}

Result<DriverFunctions> fetch_driver_functions() {
  DriverFunctions driver;
  PIPEPLAN_CHECK(fetch(driver.device_get, "cuDeviceGet", 2000));
  PIPEPLAN_CHECK(fetch(driver.error_string, "cuGetErrorString", 6000));
  PIPEPLAN_CHECK(fetch(driver.device_resource, "cuDeviceGetDevResource", 12040));
  PIPEPLAN_CHECK(fetch(driver.split_sms, "cuDevSmResourceSplitByCount", 12040));
  PIPEPLAN_CHECK(fetch(driver.describe, "cuDevResourceGenerateDesc", 12040));
  PIPEPLAN_CHECK(fetch(driver.create_context, "cuGreenCtxCreate", 12040));
  PIPEPLAN_CHECK(fetch(driver.destroy_context, "cuGreenCtxDestroy", 12040));
  PIPEPLAN_CHECK(fetch(driver.context_resource, "cuGreenCtxGetDevResource", 12040));
  PIPEPLAN_CHECK(fetch(driver.create_stream, "cuGreenCtxStreamCreate", 12050));
  return driver;
}

}  // namespace pipeplan
