#pragma once

// Turns CUPTI's activity records into a trace, in whatever order they come. Everything is copied: the records
// and the names they point to belong to CUPTI. Kinds that a trace has no place for are passed over.

#include <cupti.h>

#include <map>

#include "profiler/gpu/trace.hpp"

namespace pipeplan {

// CUPTI turns the GPU's stamps into the host's clock afterwards, some microseconds off either way. What it
// does not get right within this is no use.
inline constexpr Nanoseconds largest_clock_error = std::chrono::microseconds(200);

class CuptiRecords {
 public:
  void add(const CUpti_Activity& record);
  void clear() { *this = {}; }
  // What was added so far: work, launches, memory events and overheads. Iterations are the caller's.
  GpuTrace take();

 private:
  void add_work(GpuWorkKind kind, const auto& record);
  void add_kernel(const CUpti_ActivityKernel10& record);
  void add_memory_event(const CUpti_ActivityMemory4& record);
  void add_tag(const CUpti_ActivityExternalCorrelation& record);
  void add_call(const CUpti_ActivityAPI& record);

  GpuTrace trace_;
  // Tags whose call has not come yet. CUPTI gives a tag right before its call, but a buffer may end between.
  std::map<std::uint32_t, std::uint64_t> open_tags_;
};

}  // namespace pipeplan
