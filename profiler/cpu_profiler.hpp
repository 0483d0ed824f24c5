#pragma once

// Measures the layers on one core of this machine, where they will run: whole training micro-batches go
// through the network, each layer's forward, backward for the input, backward for the weights and optimizer
// step timed in turn, so that caches are as cold as in a real iteration. Sizes are read off the arena's
// accounting.

#include "profiler/profiler.hpp"

namespace pipeplan {

Result<Profiling> profile_on_cpu(const ModelGraph& model, const ProfileOptions& options);

// What a measured profile says of itself in source.settings: kernel_build(), and "clean" or "busy".
inline constexpr auto kernels_setting = "kernels";
inline constexpr auto load_guard_setting = "load_guard";

// The name of this machine's CPU.
std::string cpu_device_name();

}  // namespace pipeplan
