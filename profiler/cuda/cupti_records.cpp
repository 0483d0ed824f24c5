#include "profiler/cuda/cupti_records.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace pipeplan {
namespace {

// The records begin with their kind, which says which type they are.
template<class Record>
const Record& as(const CUpti_Activity& record) {
  return reinterpret_cast<const Record&>(record);
}

std::int64_t whole(std::uint64_t value) { return static_cast<std::int64_t>(value); }

std::string overhead_name(CUpti_ActivityOverheadKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_OVERHEAD_DRIVER_COMPILER: return "driver compiler";
    case CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH: return "buffer flush";
    case CUPTI_ACTIVITY_OVERHEAD_CUPTI_INSTRUMENTATION: return "instrumentation";
    case CUPTI_ACTIVITY_OVERHEAD_CUPTI_RESOURCE: return "resource";
    case CUPTI_ACTIVITY_OVERHEAD_RUNTIME_TRIGGERED_MODULE_LOADING: return "module loading";
    case CUPTI_ACTIVITY_OVERHEAD_LAZY_FUNCTION_LOADING: return "lazy function loading";
    case CUPTI_ACTIVITY_OVERHEAD_COMMAND_BUFFER_FULL: return "command buffer full";
    case CUPTI_ACTIVITY_OVERHEAD_ACTIVITY_BUFFER_REQUEST: return "buffer request";
    case CUPTI_ACTIVITY_OVERHEAD_UVM_ACTIVITY_INIT: return "unified memory";
    case CUPTI_ACTIVITY_OVERHEAD_UNKNOWN:
    case CUPTI_ACTIVITY_OVERHEAD_FORCE_INT: break;
  }
  return "unknown";
}

GpuOverhead overhead(const CUpti_ActivityOverhead3& record) {
  return {overhead_name(record.overheadKind), whole(record.start), whole(record.end)};
}

bool on_device(CUpti_ActivityMemoryKind kind) {
  return kind == CUPTI_ACTIVITY_MEMORY_KIND_DEVICE || kind == CUPTI_ACTIVITY_MEMORY_KIND_MANAGED;
}

bool in_pool(const CUpti_ActivityMemory4& record) {
  return record.memoryPoolConfig.memoryPoolType != CUPTI_ACTIVITY_MEMORY_POOL_TYPE_INVALID;
}

}  // namespace

void CuptiRecords::add(const CUpti_Activity& record) {
  switch (record.kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: return add_kernel(as<CUpti_ActivityKernel10>(record));
    case CUPTI_ACTIVITY_KIND_MEMCPY: return add_work(GpuWorkKind::copy, as<CUpti_ActivityMemcpy6>(record));
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      return add_work(GpuWorkKind::peer_copy, as<CUpti_ActivityMemcpyPtoP4>(record));
    case CUPTI_ACTIVITY_KIND_MEMSET: return add_work(GpuWorkKind::set, as<CUpti_ActivityMemset4>(record));
    case CUPTI_ACTIVITY_KIND_MEMORY2: return add_memory_event(as<CUpti_ActivityMemory4>(record));
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      return add_tag(as<CUpti_ActivityExternalCorrelation>(record));
    case CUPTI_ACTIVITY_KIND_DRIVER:
    case CUPTI_ACTIVITY_KIND_RUNTIME: return add_call(as<CUpti_ActivityAPI>(record));
    case CUPTI_ACTIVITY_KIND_OVERHEAD:
      trace_.overheads.push_back(overhead(as<CUpti_ActivityOverhead3>(record)));
      return;
    case CUPTI_ACTIVITY_KIND_CONTEXT:
      if (const auto& context = as<CUpti_ActivityContext3>(record); context.isGreenContext != 0)
        trace_.partition = fmt::format("{} SMs, green context", int{context.numMultiprocessors});
      return;
    default: return;  // CUPTI has dozens more
  }
}

GpuTrace CuptiRecords::take() {
  // Tags without a call: when they were set is not known, so they hold from the beginning.
  for (const auto& [correlation, tag] : open_tags_) trace_.launches.push_back({correlation, tag, 0});
  GpuTrace taken = std::move(trace_);
  clear();
  return taken;
}

void CuptiRecords::add_work(GpuWorkKind kind, const auto& record) {
  trace_.work.push_back({.kind = kind,
                         .name = {},
                         .start = whole(record.start),
                         .end = whole(record.end),
                         .correlation = record.correlationId,
                         .context = record.contextId,
                         .stream = record.streamId,
                         .bytes = whole(record.bytes)});
}

void CuptiRecords::add_kernel(const CUpti_ActivityKernel10& record) {
  trace_.work.push_back({.kind = GpuWorkKind::kernel,
                         .name = record.name == nullptr ? "unnamed kernel" : record.name,
                         .start = whole(record.start),
                         .end = whole(record.end),
                         .correlation = record.correlationId,
                         .context = record.contextId,
                         .stream = record.streamId});
}

void CuptiRecords::add_memory_event(const CUpti_ActivityMemory4& record) {
  const bool allocation = record.memoryOperationType == CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION;
  const bool release = record.memoryOperationType == CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE;
  if (!on_device(record.memoryKind) || (!allocation && !release)) return;
  trace_.memory.push_back({.allocation = allocation,
                           .address = record.address,
                           .bytes = whole(record.bytes),
                           .at = whole(record.timestamp),
                           .correlation = record.correlationId,
                           .pool_bytes = in_pool(record) ? whole(record.memoryPoolConfig.utilizedSize) : 0});
}

// Packed again so that only passes we know appear in a trace. Of nested tags CUPTI gives the innermost last.
void CuptiRecords::add_tag(const CUpti_ActivityExternalCorrelation& record) {
  if (record.externalKind != CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0) return;
  const std::uint32_t correlation = record.correlationId;
  open_tags_[correlation] = pack(unpack(record.externalId));
}

// Work may be stamped as if it had begun before its call, so the call is dated back. Ids come again much
// later.
void CuptiRecords::add_call(const CUpti_ActivityAPI& record) {
  const std::uint32_t correlation = record.correlationId;
  const auto found = open_tags_.find(correlation);
  if (found == open_tags_.end()) return;
  const std::int64_t at = std::max<std::int64_t>(whole(record.start) - largest_clock_error.count(), 0);
  trace_.launches.push_back({correlation, found->second, at});
  open_tags_.erase(found);
}

}  // namespace pipeplan
