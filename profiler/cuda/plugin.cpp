// The one function that the plug-in shows.

#include "profiler/cuda/cuda_backend.hpp"
#include "profiler/gpu/plugin_entry.hpp"

extern "C" __attribute__((visibility("default"))) pipeplan::GpuBackend* pipeplan_cuda_backend(
    const char* wanted, const char** found) {
  static const std::string stamp = pipeplan::plugin_stamp();
  static pipeplan::CudaBackend backend;
  *found = stamp.c_str();
  return stamp == wanted ? &backend : nullptr;
}
