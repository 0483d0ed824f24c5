#pragma once

// What `show devices` prints: the CPU, and every GPU or why there is none.

#include <string>

#include "models/base/result.hpp"
#include "profiler/gpu/gpu_backend.hpp"

namespace pipeplan {

std::string devices_text();

// The lines about GPUs: of `devices`, or the reason why there are none and what to do.
std::string gpus_text(const Result<std::vector<GpuDevice>>& devices, const std::string& version);

}  // namespace pipeplan
