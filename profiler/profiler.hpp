#pragma once

// Measures what the layers of a runnable network cost. The dispatcher over backends; each backend is a file
// pair.

#include <functional>

#include "models/model_graph.hpp"
#include "profiler/load_guard.hpp"
#include "profiler/profile.hpp"
#include "profiler/stopping_rule.hpp"

namespace pipeplan {

enum class Backend { cpu, virtual_clock };

constexpr auto spellings(Backend) {
  return std::to_array<Spelling<Backend>>({{Backend::cpu, "cpu"}, {Backend::virtual_clock, "virtual"}});
}

// Work done of work planned, for a progress line; called from the measuring thread, between measurements.
using Progress = std::function<void(std::int64_t done, std::int64_t total)>;

struct ProfileOptions {
  Backend backend = Backend::cpu;
  std::vector<std::int64_t> micro_batch_sizes = {1};
  StoppingRule stopping;
  Progress progress;
};

struct Profiling {
  Profile profile;
  LoadVerdict load;  // whether the machine was quiet enough to believe the times
};

Result<Profiling> profile_model(const ModelGraph& model, const ProfileOptions& options);

}  // namespace pipeplan
