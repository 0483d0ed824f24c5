#pragma once

// Measures what the layers of a runnable network cost. The dispatcher over backends; each backend is a file
// pair.

#include <functional>
#include <optional>
#include <vector>

#include "models/base/warning.hpp"
#include "models/model_graph.hpp"
#include "profiler/gpu/trace.hpp"
#include "profiler/load_guard.hpp"
#include "profiler/profile.hpp"
#include "profiler/stopping_rule.hpp"

namespace pipeplan {

enum class Backend {
  cpu,
  cuda,
  sleep,          // given durations slept through: timing alone, on the wall clock
  virtual_clock,  // timing alone, on a clock that only counts
};

constexpr auto spellings(Backend) {
  using enum Backend;
  return std::to_array<Spelling<Backend>>(
      {{cpu, "cpu"}, {cuda, "cuda"}, {sleep, "sleep"}, {virtual_clock, "virtual"}});
}

// Work done of work planned, for a progress line; called from the measuring thread, between measurements.
using Progress = std::function<void(std::int64_t done, std::int64_t total)>;

struct ProfileOptions {
  Backend backend = Backend::cpu;
  std::vector<std::int64_t> micro_batch_sizes = {1};
  StoppingRule stopping;
  // cuda: which GPU, and a green context of so many SMs on it (absent: all of it).
  std::int64_t gpu = 0;
  std::optional<std::int64_t> partition_sms = {};
  Progress progress;
};

struct Profiling {
  Profile profile;
  LoadVerdict load;  // cpu: whether the machine was quiet enough to believe the times
  std::optional<GpuRecording> recording = {};  // cuda: what the times were read from, where CUPTI worked
  std::vector<Warning> warnings = {};
};

Result<Profiling> profile_model(const ModelGraph& model, const ProfileOptions& options);

}  // namespace pipeplan
