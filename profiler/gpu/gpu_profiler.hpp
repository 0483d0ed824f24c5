#pragma once

// Measures the layers on a GPU, inside the partition where they will run: whole training micro-batches go
// through the network, first plainly, then with the collector on. A layer's times are the busy times of its
// kernels, which the collector hardly changes; how much longer the whole micro-batch takes under it is
// reported. Where there is no collector, events around each layer and pass take its place.

#include "profiler/gpu/gpu_backend.hpp"
#include "profiler/profiler.hpp"

namespace pipeplan {

// Sizes must be ascending. An error of the GPU names call, layer and pass.
Result<Profiling> profile_on_gpu(const ModelGraph& model, const ProfileOptions& options, GpuBackend& backend);

// "32 of 132 SMs, green context".
std::string part_text(const GpuPart& part);

// What a profile of a GPU says of itself in source.settings, beside kernels_setting (the backend's version).
inline constexpr auto partition_setting = "partition";                     // part_text
inline constexpr auto times_setting = "times";                             // "kernels" or "events"
inline constexpr auto cupti_overhead_setting = "cupti_overhead_fraction";  // the worst of all sizes
inline constexpr auto arena_setting = "arena_bytes";                       // the largest of all sizes
inline constexpr auto pool_high_water_setting = "pool_high_water_bytes";   // as the driver counts it
// As the collector counts them; 0 in a sound program.
inline constexpr auto allocations_setting = "allocations_while_measured";

inline constexpr double largest_cupti_overhead_fraction = 0.05;

}  // namespace pipeplan
