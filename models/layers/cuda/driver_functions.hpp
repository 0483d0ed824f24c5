#pragma once

// The driver's functions for green contexts, fetched through the runtime when they are needed. The driver is
// never linked: a program that needs libcuda to be loaded starts on no machine without a GPU.

#include <cuda.h>
#include <cudaTypedefs.h>

#include <string>

#include "models/base/result.hpp"

namespace pipeplan {

struct DriverFunctions {
  PFN_cuDeviceGet_v2000 device_get = nullptr;
  PFN_cuGetErrorString_v6000 error_string = nullptr;
  PFN_cuDeviceGetDevResource_v12040 device_resource = nullptr;
  PFN_cuDevSmResourceSplitByCount_v12040 split_sms = nullptr;
  PFN_cuDevResourceGenerateDesc_v12040 describe = nullptr;
  PFN_cuGreenCtxCreate_v12040 create_context = nullptr;
  PFN_cuGreenCtxDestroy_v12040 destroy_context = nullptr;
  PFN_cuGreenCtxGetDevResource_v12040 context_resource = nullptr;
  PFN_cuGreenCtxStreamCreate_v12050 create_stream = nullptr;

  // Names the call and the driver's reason.
  [[nodiscard]] Result<void> check(CUresult status, const char* call, const std::string& where) const;
};

// Unavailable, naming the function, where the driver is older than green contexts.
Result<DriverFunctions> fetch_driver_functions();

}  // namespace pipeplan
