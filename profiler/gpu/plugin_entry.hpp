#pragma once

// Where the program and its CUDA plug-in meet: the one function the plug-in shows, and the stamp by which
// both know that they were built from the same headers by the same compiler.

#include <fmt/format.h>

#include <string>

#include "models/base/version.hpp"
#include "profiler/gpu/gpu_backend.hpp"

namespace pipeplan {

// The sizes catch what a version alone does not: a plug-in left over from before a header changed.
inline std::string plugin_stamp() {
  return fmt::format("pipeplan {}, compiler {}, layout {}.{}.{}.{}", version(), __VERSION__,
                     sizeof(GpuDevice), sizeof(GpuPart), sizeof(GpuTrace), sizeof(LayerSpec));
}

// pipeplan_cuda_backend: the plug-in's backend, which lives as long as the plug-in, or null and `found` where
// its stamp is another than `wanted`.
using PluginEntry = GpuBackend*(const char* wanted, const char** found);
inline constexpr const char* plugin_entry_name = "pipeplan_cuda_backend";

}  // namespace pipeplan
