#pragma once

// A GPU trace reduced to costs: pure, and independent of the order of the records. Times of a cell (layer and
// pass) are taken per iteration, then the median over the iterations that count. An iteration does not count
// if the collector's overhead overlaps it, one of its records could not be timed, or work shares time with it
// that does not belong to it. Every record of work is in one place: a cell, `unattributed`, or one of the
// counts of untimed and outside records.

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "models/base/warning.hpp"
#include "profiler/gpu/trace.hpp"

namespace pipeplan {

// One layer and pass in one iteration, its micro-batches together.
struct GpuCell {
  Nanoseconds sum{};               // of all durations
  Nanoseconds busy{};              // union of the intervals: what overlaps counts once
  Nanoseconds span{};              // first start to last end
  std::int64_t launches = 0;       // kernels, copies and sets
  std::int64_t micro_batches = 0;  // that launched them
  Bytes copied;
  Bytes live_change;  // allocated less released
  Bytes peak_change;  // largest sum of the changes so far, at least 0; at one time allocations go first
  friend bool operator==(const GpuCell&, const GpuCell&) = default;
};

struct UnattributedKernel {
  std::string name;  // of a kernel; of a copy or set without one, its kind
  std::int64_t launches = 0;
  Nanoseconds sum{};
  friend bool operator==(const UnattributedKernel&, const UnattributedKernel&) = default;
};

struct ReducedTrace {
  using Key = std::tuple<std::int64_t, std::int64_t, LayerPass>;  // iteration, layer, pass
  std::map<Key, GpuCell> cells;
  std::vector<UnattributedKernel> unattributed;  // by name
  std::vector<std::int64_t> dirty_iterations;    // do not count
  // Those of them that the collector's overhead alone disturbed: their kernel times are the device's own and
  // hold; what they may lack is calm between the kernels.
  std::vector<std::int64_t> overhead_iterations;
  std::int64_t untimed_records = 0;  // start and end 0, or end before start
  // Start in no iteration, end beyond it, or launched by another iteration than the one they run in.
  std::int64_t outside_records = 0;
  std::int64_t unreleased_allocations = 0;
  std::int64_t dropped_records = 0;
  [[nodiscard]] bool complete() const { return dropped_records == 0; }
  friend bool operator==(const ReducedTrace&, const ReducedTrace&) = default;
};

ReducedTrace reduce(const GpuTrace& trace);

// The recording's outline with times from the traces: busy time per pass and micro-batch (medians), samples
// and spread. A profile from a fabricated trace says so in source.settings. Refused: traces that are not one
// per micro-batch size of the outline, dropped records, no iteration that counts, a layer without work in its
// forward. Warned of: unattributed kernels, spreads above 5 %.
inline constexpr auto launch_gap_setting = "launch_gap_ns";

struct ReducedProfile {
  Profile profile;
  std::vector<Warning> warnings;
};
inline constexpr auto trace_setting = "trace";  // "fabricated", or absent
Result<ReducedProfile> reduce(const GpuRecording& recording, const std::string& source);

}  // namespace pipeplan
