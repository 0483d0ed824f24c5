#include "profiler/cuda/cupti_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <vector>

namespace pipeplan {
namespace {

constexpr int major_of(std::uint32_t version) { return static_cast<int>(version / 10000); }
constexpr int wanted_major = major_of(CUPTI_API_VERSION);

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::vector<std::string> library_places() {
  if (const std::string given = environment("PIPEPLAN_CUPTI"); !given.empty()) return {given};
  const std::string name = fmt::format("libcupti.so.{}", wanted_major);
  std::vector<std::string> places{name};
  for (const std::string& toolkit : {environment("CUDA_HOME"), std::string("/usr/local/cuda")}) {
    if (toolkit.empty()) continue;
    places.push_back(fmt::format("{}/lib64/{}", toolkit, name));
    places.push_back(fmt::format("{}/extras/CUPTI/lib64/{}", toolkit, name));
  }
  return places;
}

struct OpenedLibrary {
  void* symbols = nullptr;
  std::string path;
};

// Never closed again: CUPTI's own threads may run in it until the process ends.
Result<OpenedLibrary> open_library() {
  const std::vector<std::string> places = library_places();
  for (const std::string& place : places)
    if (void* symbols = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL)) return OpenedLibrary{symbols, place};
  return fail(ErrorCode::unavailable, places.front(),
              fmt::format("CUPTI is not to be loaded, looked at {}", fmt::join(places, ", ")),
              fmt::format("install CUPTI of CUDA {} or name its library in PIPEPLAN_CUPTI", wanted_major));
}

template<class Function>
void find(const OpenedLibrary& library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library.symbols, name));
}

// Also notes the first function that is missing.
class SymbolReader {
 public:
  explicit SymbolReader(const OpenedLibrary& library) : library_(library) {}

  template<class Function>
  void need(const char* name, Function*& function) {
    find(library_, name, function);
    if (function == nullptr && missing_.empty()) missing_ = name;
  }

  [[nodiscard]] const std::string& missing() const { return missing_; }

 private:
  const OpenedLibrary& library_;
  std::string missing_;
};

Result<CuptiLibrary> read_symbols(const OpenedLibrary& opened) {
  CuptiLibrary cupti{.path = opened.path};
  SymbolReader symbols(opened);
  symbols.need("cuptiGetVersion", cupti.get_version);
  symbols.need("cuptiGetResultString", cupti.get_result_string);
  symbols.need("cuptiSubscribe", cupti.subscribe);
  symbols.need("cuptiUnsubscribe", cupti.unsubscribe);
  symbols.need("cuptiGetCallbackName", cupti.get_callback_name);
  symbols.need("cuptiActivitySetAttribute", cupti.set_attribute);
  symbols.need("cuptiActivityRegisterTimestampCallback", cupti.register_timestamp_callback);
  symbols.need("cuptiActivityRegisterCallbacks", cupti.register_callbacks);
  symbols.need("cuptiActivityEnable", cupti.enable);
  symbols.need("cuptiActivityDisable", cupti.disable);
  symbols.need("cuptiActivityFlushAll", cupti.flush_all);
  symbols.need("cuptiActivityGetNextRecord", cupti.get_next_record);
  symbols.need("cuptiActivityGetNumDroppedRecords", cupti.get_dropped_records);
  symbols.need("cuptiActivityPushExternalCorrelationId", cupti.push_external_id);
  symbols.need("cuptiActivityPopExternalCorrelationId", cupti.pop_external_id);
  find(opened, "cuptiActivityEnableDriverApi", cupti.enable_driver_api);
  find(opened, "cuptiActivityEnableRuntimeApi", cupti.enable_runtime_api);
  if (symbols.missing().empty()) return cupti;
  return fail(ErrorCode::unavailable, opened.path, fmt::format("has no {}, wanted CUPTI", symbols.missing()));
}

Result<void> check_version(const CuptiLibrary& cupti) {
  std::uint32_t version = 0;
  if (auto read = cupti.check(cupti.get_version(&version), "cuptiGetVersion"); !read) return read;
  if (major_of(version) == wanted_major) return {};
  return fail(ErrorCode::unavailable, cupti.path,
              fmt::format("is CUPTI of CUDA {} (version {}), wanted CUDA {}", major_of(version), version,
                          wanted_major),
              fmt::format("name the library of CUDA {} in PIPEPLAN_CUPTI", wanted_major));
}

struct Refusal {
  CUptiResult status;
  const char* what;
  const char* hint;
};

constexpr Refusal known_refusals[] = {
    {CUPTI_ERROR_INSUFFICIENT_PRIVILEGES, "this user may not trace the GPU",
     "run as root with CAP_SYS_ADMIN, or load the driver with NVreg_RestrictProfilingToAdminUsers=0"},
    {CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED, "another tool traces this process already",
     "run without nsys, ncu, cuda-gdb and compute-sanitizer, and unset NVTX_INJECTION64_PATH"},
    {CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED, "this virtual GPU cannot be traced",
     "use a GPU that is passed through whole"},
    {CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES, "this virtual machine may not trace the GPU",
     "have profiling switched on for the virtual machine on its host"},
    {CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED,
     "the GPU is in confidential mode, which forbids tracing", "use a GPU outside of confidential computing"},
    {CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED, "a MIG slice cannot be traced", "use a whole GPU"},
    {CUPTI_ERROR_WSL_DEVICE_NOT_SUPPORTED, "GPUs under WSL cannot be traced",
     "run on Linux itself, or switch developer mode on in the Windows driver"},
    {CUPTI_ERROR_UNKNOWN, "there seems to be no driver", "see whether nvidia-smi finds the GPU"},
};

}  // namespace

Result<void> CuptiLibrary::check(CUptiResult status, const char* call) const {
  if (status == CUPTI_SUCCESS) return {};
  for (const Refusal& refusal : known_refusals)
    if (refusal.status == status)
      return fail(ErrorCode::unavailable, path,
                  fmt::format("CUPTI is refused: {} ({} gave error {})", refusal.what, call,
                              static_cast<int>(status)),
                  refusal.hint);
  const char* name = nullptr;
  get_result_string(status, &name);
  return fail(ErrorCode::unavailable, path,
              fmt::format("CUPTI failed: {} gave error {} ({})", call, static_cast<int>(status),
                          name == nullptr ? "unknown" : name));
}

Result<CuptiLibrary> load_cupti() {
  PIPEPLAN_TRY(opened, open_library());
  PIPEPLAN_TRY(cupti, read_symbols(opened));
  PIPEPLAN_CHECK(check_version(cupti));
  return cupti;
}

}  // namespace pipeplan
