// Activity records as CUPTI lays them out, made by hand, into the trace and on into costs.

#include <doctest/doctest.h>

#include "profiler/cuda/cupti_records.hpp"
#include "profiler/gpu/reduce.hpp"

namespace pipeplan {
namespace {

template<class Record>
Record blank(CUpti_ActivityKind kind) {
  Record record{};
  record.kind = kind;
  return record;
}

void add(CuptiRecords& records, const auto& record) {
  records.add(reinterpret_cast<const CUpti_Activity&>(record));
}

CUpti_ActivityKernel10 kernel(const char* name, std::uint32_t id, std::uint64_t start, std::uint64_t end) {
  auto record = blank<CUpti_ActivityKernel10>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  record.name = name;
  record.correlationId = id;
  record.start = start;
  record.end = end;
  record.contextId = 2;
  record.streamId = 13;
  return record;
}

CUpti_ActivityExternalCorrelation tagged(std::uint32_t id, const LaunchTag& tag) {
  auto record = blank<CUpti_ActivityExternalCorrelation>(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION);
  record.externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
  record.externalId = pack(tag);
  record.correlationId = id;
  return record;
}

// A call whose work may be stamped from `earliest` on.
CUpti_ActivityAPI call(CUpti_ActivityKind kind, std::uint32_t id, std::uint64_t earliest) {
  auto record = blank<CUpti_ActivityAPI>(kind);
  record.correlationId = id;
  record.start = earliest + static_cast<std::uint64_t>(largest_clock_error.count());
  record.end = record.start + 4;
  return record;
}

CUpti_ActivityMemory4 memory(CUpti_ActivityMemoryOperationType operation, CUpti_ActivityMemoryKind kind) {
  auto record = blank<CUpti_ActivityMemory4>(CUPTI_ACTIVITY_KIND_MEMORY2);
  record.memoryOperationType = operation;
  record.memoryKind = kind;
  record.correlationId = 5;
  record.address = 0x7f0000000200;
  record.bytes = 512;
  record.timestamp = 105;
  return record;
}

const LaunchTag first_forward{0, {0, LayerPass::forward, 0}};
const LaunchTag second_forward{0, {1, LayerPass::forward, 0}};

}  // namespace

TEST_CASE("cupti records: a kernel keeps its name when its record is gone") {
  CuptiRecords records;
  {
    char name[] = "gemm_128x64";
    add(records, kernel(name, 7, 110, 120));
    name[0] = 'x';
  }
  const GpuTrace trace = records.take();
  REQUIRE(trace.work.size() == 1);
  CHECK(trace.work[0] == GpuWork{GpuWorkKind::kernel, "gemm_128x64", 110, 120, 7, 2, 13, 0});
}

TEST_CASE("cupti records: copies, copies between devices and sets keep their bytes") {
  CuptiRecords records;
  auto copy = blank<CUpti_ActivityMemcpy6>(CUPTI_ACTIVITY_KIND_MEMCPY);
  copy.bytes = 64;
  copy.start = 10;
  copy.end = 20;
  copy.correlationId = 1;
  copy.contextId = 3;
  copy.streamId = 4;
  auto peer = blank<CUpti_ActivityMemcpyPtoP4>(CUPTI_ACTIVITY_KIND_MEMCPY2);
  peer.bytes = 128;
  peer.correlationId = 2;
  auto set = blank<CUpti_ActivityMemset4>(CUPTI_ACTIVITY_KIND_MEMSET);
  set.bytes = 32;
  set.correlationId = 3;
  add(records, copy);
  add(records, peer);
  add(records, set);
  CHECK(records.take().work == std::vector<GpuWork>{{GpuWorkKind::copy, "", 10, 20, 1, 3, 4, 64},
                                                    {GpuWorkKind::peer_copy, "", 0, 0, 2, 0, 0, 128},
                                                    {GpuWorkKind::set, "", 0, 0, 3, 0, 0, 32}});
}

TEST_CASE("cupti records: the call gives a tag its time, of the driver as well as of the runtime") {
  for (const auto kind : {CUPTI_ACTIVITY_KIND_DRIVER, CUPTI_ACTIVITY_KIND_RUNTIME}) {
    CuptiRecords records;
    add(records, tagged(7, second_forward));
    add(records, call(kind, 7, 105));
    CHECK(records.take().launches == std::vector<GpuLaunch>{{7, pack(second_forward), 105}});
  }
}

TEST_CASE("cupti records: of nested tags the last, which is the innermost, holds") {
  CuptiRecords records;
  add(records, tagged(7, first_forward));
  add(records, tagged(7, second_forward));
  add(records, call(CUPTI_ACTIVITY_KIND_RUNTIME, 7, 105));
  CHECK(records.take().launches == std::vector<GpuLaunch>{{7, pack(second_forward), 105}});
}

TEST_CASE("cupti records: an id that is used again makes a launch of its own") {
  CuptiRecords records;
  for (const auto& [tag, at] : {std::pair{first_forward, 105}, std::pair{second_forward, 305}}) {
    add(records, tagged(7, tag));
    add(records, call(CUPTI_ACTIVITY_KIND_RUNTIME, 7, static_cast<std::uint64_t>(at)));
  }
  CHECK(records.take().launches ==
        std::vector<GpuLaunch>{{7, pack(first_forward), 105}, {7, pack(second_forward), 305}});
}

TEST_CASE("cupti records: calls without a tag and tags of other tools launch nothing of ours") {
  CuptiRecords records;
  add(records, call(CUPTI_ACTIVITY_KIND_RUNTIME, 7, 105));
  auto foreign = tagged(8, first_forward);
  foreign.externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1;
  add(records, foreign);
  add(records, call(CUPTI_ACTIVITY_KIND_RUNTIME, 8, 115));
  CHECK(records.take().launches.empty());
}

TEST_CASE("cupti records: a tag whose call never came holds from the beginning") {
  CuptiRecords records;
  add(records, tagged(7, first_forward));
  CHECK(records.take().launches == std::vector<GpuLaunch>{{7, pack(first_forward), 0}});
  CHECK(records.take().launches.empty());
}

TEST_CASE("cupti records: memory of the device is taken and given, pinned host memory is not counted") {
  CuptiRecords records;
  auto pooled = memory(CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE);
  pooled.memoryPoolConfig.memoryPoolType = CUPTI_ACTIVITY_MEMORY_POOL_TYPE_LOCAL;
  pooled.memoryPoolConfig.utilizedSize = 4096;
  add(records, memory(CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE));
  add(records, memory(CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION, CUPTI_ACTIVITY_MEMORY_KIND_PINNED));
  add(records, pooled);
  CHECK(records.take().memory == std::vector<GpuMemoryEvent>{{true, 0x7f0000000200, 512, 105, 5, 0},
                                                             {false, 0x7f0000000200, 512, 105, 5, 4096}});
}

TEST_CASE("cupti records: overheads have names, and green contexts their SMs") {
  CuptiRecords records;
  auto flush = blank<CUpti_ActivityOverhead3>(CUPTI_ACTIVITY_KIND_OVERHEAD);
  flush.overheadKind = CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH;
  flush.start = 10;
  flush.end = 30;
  auto context = blank<CUpti_ActivityContext3>(CUPTI_ACTIVITY_KIND_CONTEXT);
  context.isGreenContext = 1;
  context.numMultiprocessors = 32;
  add(records, flush);
  add(records, context);
  const GpuTrace trace = records.take();
  CHECK(trace.overheads == std::vector<GpuOverhead>{{"buffer flush", 10, 30}});
  CHECK(trace.partition == "32 SMs, green context");
}

TEST_CASE("cupti records: kinds that a trace has no place for are passed over") {
  CuptiRecords records;
  add(records, blank<CUpti_ActivityDevice5>(CUPTI_ACTIVITY_KIND_DEVICE));
  add(records, blank<CUpti_ActivityAPI>(CUPTI_ACTIVITY_KIND_INTERNAL_LAUNCH_API));
  CHECK(records.take() == GpuTrace{});
}

TEST_CASE("cupti records: kernels before their calls, ids used again and zero stamps reduce as they should") {
  CuptiRecords records;
  add(records, kernel("b", 7, 330, 350));
  add(records, kernel("a", 7, 110, 120));
  add(records, kernel("lost", 8, 0, 0));
  add(records, kernel("stray", 9, 160, 165));
  add(records, tagged(7, first_forward));
  add(records, call(CUPTI_ACTIVITY_KIND_RUNTIME, 7, 105));
  add(records, tagged(7, {1, second_forward.label}));
  add(records, call(CUPTI_ACTIVITY_KIND_DRIVER, 7, 305));
  add(records, tagged(8, {1, second_forward.label}));
  add(records, call(CUPTI_ACTIVITY_KIND_RUNTIME, 8, 310));
  GpuTrace trace = records.take();
  trace.iterations = {{0, 100, 200}, {1, 300, 400}};
  const ReducedTrace reduced = reduce(trace);
  CHECK(reduced.cells.size() == 2);
  CHECK(reduced.cells.at({0, 0, LayerPass::forward}).busy == Nanoseconds{120 - 110});
  CHECK(reduced.cells.at({1, 1, LayerPass::forward}).busy == Nanoseconds{350 - 330});
  CHECK(reduced.untimed_records == 1);
  CHECK(reduced.dirty_iterations == std::vector<std::int64_t>{1});
  CHECK(reduced.unattributed == std::vector<UnattributedKernel>{{"stray", 1, Nanoseconds{5}}});
}

}  // namespace pipeplan
