#include "profiler/gpu/gpu_backend.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <filesystem>

#include "profiler/gpu/plugin_entry.hpp"

namespace pipeplan {
namespace {

constexpr const char* plugin_file = "libpipeplan_cuda.so";
constexpr const char* plugin_variable = "PIPEPLAN_CUDA_PLUGIN";

// Beside the program, or where an installed one keeps its plug-ins.
std::vector<std::string> plugin_places() {
  if (const char* named = std::getenv(plugin_variable); named != nullptr && *named != '\0') return {named};
  std::error_code failed;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (failed) return {};
  const auto folder = program.parent_path();
  return {(folder / plugin_file).string(),
          (folder.parent_path() / "lib" / "pipeplan" / plugin_file).string()};
}

Failure no_plugin(const std::vector<std::string>& places) {
  return fail(
      ErrorCode::unavailable, {}, fmt::format("no CUDA plug-in: looked for {}", fmt::join(places, " and ")),
      fmt::format("build with nvcc of CUDA 13 on the PATH, or let {} name the plug-in", plugin_variable));
}

Failure does_not_load(const std::string& path) {
  const char* said = ::dlerror();
  const std::string reason = said != nullptr ? said : "unknown reason";
  const bool library_missing = reason.find("cannot open shared object file") != std::string::npos;
  return fail(ErrorCode::unavailable, path, fmt::format("the CUDA plug-in does not load: {}", reason),
              library_missing
                  ? "install the libraries of CUDA 13 (cuBLAS), or add their folder to LD_LIBRARY_PATH"
                  : "");
}

Result<GpuBackend*> load(const std::string& path) {
  // Never closed: its backend lives as long as the program.
  void* plugin = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (plugin == nullptr) return does_not_load(path);
  auto* entry = reinterpret_cast<PluginEntry*>(::dlsym(plugin, plugin_entry_name));
  if (entry == nullptr)
    return fail(ErrorCode::unavailable, path, fmt::format("is no plug-in: it has no {}", plugin_entry_name));
  const std::string wanted = plugin_stamp();
  const char* found = "";
  GpuBackend* backend = entry(wanted.c_str(), &found);
  if (backend == nullptr)
    return fail(ErrorCode::unavailable, path, fmt::format("was built as '{}', wanted '{}'", found, wanted),
                "build the program and its plug-in together");
  return backend;
}

}  // namespace

Result<GpuBackend*> load_gpu_backend(const std::vector<std::string>& places) {
  std::error_code ignored;
  for (const std::string& path : places)
    if (std::filesystem::exists(path, ignored)) return load(path);
  return no_plugin(places);
}

Result<GpuBackend*> cuda_backend() {
  static const Result<GpuBackend*> backend = load_gpu_backend(plugin_places());
  return backend;
}

}  // namespace pipeplan
