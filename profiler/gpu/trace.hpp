#pragma once

// What a GPU did while a network was measured: kernels, copies and memory events with the correlation ids
// that lead to the layer and pass which launched them. A plain value, so that all that is made of it can be
// tested without a GPU, and a document (pipeplan.gpu-trace/1), so that a recorded run can be looked at again.
// Times are ns on the collector's clock.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/base/json_file.hpp"
#include "models/base/spelling.hpp"
#include "models/base/units.hpp"
#include "models/layers/processor.hpp"
#include "profiler/profile.hpp"

namespace pipeplan {

// Who launched something: 64 bits, iteration | layer | micro-batch | pass as 8 | 32 | 16 | 8. Iteration and
// micro-batch count modulo 256 and 65536. Bits that no pass has are read as LayerPass::other.
struct LaunchTag {
  std::int64_t iteration = 0;
  LaunchLabel label;
  friend bool operator==(const LaunchTag&, const LaunchTag&) = default;
};
std::uint64_t pack(const LaunchTag& tag);
LaunchTag unpack(std::uint64_t bits);

enum class GpuWorkKind { kernel, copy, peer_copy, set };

constexpr auto spellings(GpuWorkKind) {
  using enum GpuWorkKind;
  return std::to_array<Spelling<GpuWorkKind>>(
      {{kernel, "kernel"}, {copy, "copy"}, {peer_copy, "peer_copy"}, {set, "set"}});
}

struct GpuWork {
  GpuWorkKind kind = GpuWorkKind::kernel;
  std::string name;                 // of a kernel
  std::int64_t start = 0, end = 0;  // both 0: the collector could not time it
  std::uint32_t correlation = 0;
  std::uint32_t context = 0, stream = 0;
  std::int64_t bytes = 0;  // of a copy or set
  friend bool operator==(const GpuWork&, const GpuWork&) = default;
};

// Links a correlation id to a tag. Ids are 32 bits and wrap round: `at` (ns) says when the launch was made,
// and a record belongs to the last launch of its id that was made no later than it started. Two launches of
// one id at one time: the larger tag. Where tags were nested, the recorder has put the innermost here.
struct GpuLaunch {
  std::uint32_t correlation = 0;
  std::uint64_t tag = 0;  // as pack() makes it
  std::int64_t at = 0;
  friend bool operator==(const GpuLaunch&, const GpuLaunch&) = default;
};

struct GpuMemoryEvent {
  bool allocation = true;  // else a release
  std::uint64_t address = 0;
  std::int64_t bytes = 0;
  std::int64_t at = 0;
  std::uint32_t correlation = 0;
  std::int64_t pool_bytes = 0;  // in use by its pool after the event, 0 where it has none
  friend bool operator==(const GpuMemoryEvent&, const GpuMemoryEvent&) = default;
};

// Time that the collector itself took from the run (a buffer flush, lazy loading of a kernel).
struct GpuOverhead {
  std::string kind;
  std::int64_t start = 0, end = 0;
  friend bool operator==(const GpuOverhead&, const GpuOverhead&) = default;
};

// One measured iteration of the network, from idle to idle.
struct GpuIteration {
  std::int64_t number = 0;
  std::int64_t start = 0, end = 0;
  friend bool operator==(const GpuIteration&, const GpuIteration&) = default;
};

struct GpuTrace {
  std::string device;     // name
  std::string partition;  // "32 of 132 SMs, green context"
  std::int64_t micro_batch_size = 1;
  // How long an iteration takes while nobody collects, gaps between kernels included; absent: not measured.
  std::optional<Nanoseconds> plain_iteration = {};
  std::vector<GpuIteration> iterations;  // ascending
  std::vector<GpuWork> work;             // in any order, as all below
  std::vector<GpuLaunch> launches;
  std::vector<GpuMemoryEvent> memory;
  std::vector<GpuOverhead> overheads;
  std::int64_t dropped_records = 0;
  bool fabricated = false;  // made by hand or by a test, not recorded on a GPU
  friend bool operator==(const GpuTrace&, const GpuTrace&) = default;
};

// What a recording needs beside the traces to become a profile again: everything but the times.
struct GpuRecording {
  Profile outline;               // with costs per micro-batch size whose times are 0
  std::vector<GpuTrace> traces;  // one per micro-batch size of the outline
  friend bool operator==(const GpuRecording&, const GpuRecording&) = default;
};

Json to_json(const GpuRecording& recording);
Result<GpuRecording> gpu_recording_from_json(const Json& json, const std::string& source);

}  // namespace pipeplan
