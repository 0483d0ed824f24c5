#include "profiler/cuda/cupti_collector.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <thread>

#include "profiler/cuda/cupti_library.hpp"
#include "profiler/cuda/cupti_records.hpp"

namespace pipeplan {
namespace {

constexpr std::size_t host_buffer_bytes = std::size_t{8} << 20;
constexpr auto tag_kind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;

// CONCURRENT_KERNEL, since KERNEL would run kernels one at a time. Tags come only with the records of the
// calls that launch, hence DRIVER and RUNTIME.
constexpr std::array collected_kinds{CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                     CUPTI_ACTIVITY_KIND_MEMCPY,
                                     CUPTI_ACTIVITY_KIND_MEMCPY2,
                                     CUPTI_ACTIVITY_KIND_MEMSET,
                                     CUPTI_ACTIVITY_KIND_MEMORY2,
                                     CUPTI_ACTIVITY_KIND_OVERHEAD,
                                     CUPTI_ACTIVITY_KIND_CONTEXT,
                                     CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
                                     CUPTI_ACTIVITY_KIND_DRIVER,
                                     CUPTI_ACTIVITY_KIND_RUNTIME};

// One clock for CUPTI's records and our iterations; CUPTI's own may jump.
std::uint64_t steady_now() {
  const auto since_start = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(Nanoseconds(since_start).count());
}

// Iterations begin and end in a pause: stamps that are off stay within theirs and out of any other.
std::int64_t amid_pause() {
  std::this_thread::sleep_for(2 * largest_clock_error);
  return static_cast<std::int64_t>(steady_now()) - largest_clock_error.count();
}

// Where records go. CUPTI's callbacks carry no pointer of ours, so this one is found by name.
struct Sink {
  std::mutex mutex;  // never held while CUPTI is asked to flush: it calls back from other threads
  const CuptiLibrary* cupti = nullptr;  // null: nobody collects
  CuptiRecords records;
  std::int64_t lost_records = 0;
};

Sink& sink() {
  static Sink only;
  return only;
}

void give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(ACTIVITY_RECORD_ALIGNMENT, host_buffer_bytes));
  *size = *buffer == nullptr ? 0 : host_buffer_bytes;
  *most_records = 0;  // as many as fit
}

// What stands behind a record that cannot be read is lost.
void read_records(Sink& into, std::uint8_t* buffer, std::size_t valid_bytes) {
  CUpti_Activity* record = nullptr;
  CUptiResult status = CUPTI_SUCCESS;
  while ((status = into.cupti->get_next_record(buffer, valid_bytes, &record)) == CUPTI_SUCCESS)
    into.records.add(*record);
  if (status != CUPTI_ERROR_MAX_LIMIT_REACHED) ++into.lost_records;
}

void take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid_bytes) {
  Sink& into = sink();
  {
    const std::lock_guard lock(into.mutex);
    if (into.cupti != nullptr && buffer != nullptr && valid_bytes > 0)
      read_records(into, buffer, valid_bytes);
  }
  std::free(buffer);
}

void hear_nothing(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}

// Calls that start work or take or give memory; the others only fill buffers.
bool worth_a_record(std::string_view call) {
  constexpr std::array<std::string_view, 6> parts{"Launch", "Memcpy", "Memset", "Malloc", "MemAlloc", "Free"};
  return std::ranges::any_of(
      parts, [&](std::string_view part) { return call.find(part) != std::string_view::npos; });
}

class CuptiCollector final : public GpuCollector {
 public:
  explicit CuptiCollector(CuptiLibrary cupti) : cupti_(std::move(cupti)) {}
  CuptiCollector(const CuptiCollector&) = delete;
  CuptiCollector& operator=(const CuptiCollector&) = delete;
  ~CuptiCollector() override { disconnect(); }

  // Everything that comes before the kinds are enabled, in the order in which CUPTI wants it.
  Result<void> connect();

  Result<void> start() override;
  void begin_iteration(std::int64_t number) override;
  void end_iteration() override;
  Result<void> discard() override;
  Result<GpuTrace> stop() override;
  void begin_launch(const LaunchLabel& label) override;
  void end_launch() override;

 private:
  Result<void> try_enabling() const;
  void ask_for_room() const;
  Result<void> enable_kinds();
  void silence_calls(CUpti_CallbackDomain domain, CUpti_CallbackId count,
                     decltype(&cuptiActivityEnableDriverApi) enable_call) const;
  Result<void> disable_kinds();
  void disconnect();
  Result<std::int64_t> dropped_records() const;
  GpuTrace take_trace();
  void note(CUptiResult status, const char* call);

  CuptiLibrary cupti_;
  CUpti_SubscriberHandle subscriber_ = nullptr;
  std::vector<CUpti_ActivityKind> enabled_;
  std::vector<GpuIteration> iterations_;
  std::int64_t iteration_ = 0;
  bool running_ = false;
  Result<void> noted_;  // the first failure of a call that could not return it
};

Result<void> CuptiCollector::connect() {
  PIPEPLAN_CHECK(cupti_.check(cupti_.subscribe(&subscriber_, hear_nothing, nullptr), "cuptiSubscribe"));
  {
    const std::lock_guard lock(sink().mutex);
    sink().cupti = &cupti_;
  }
  ask_for_room();
  PIPEPLAN_CHECK(
      cupti_.check(cupti_.register_timestamp_callback(steady_now), "cuptiActivityRegisterTimestampCallback"));
  PIPEPLAN_CHECK(
      cupti_.check(cupti_.register_callbacks(give_buffer, take_buffer), "cuptiActivityRegisterCallbacks"));
  return try_enabling();
}

// Whether this user may trace at all shows only here; better now than after the layers are set up.
Result<void> CuptiCollector::try_enabling() const {
  const auto kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  PIPEPLAN_CHECK(cupti_.check(cupti_.enable(kind), "cuptiActivityEnable"));
  return cupti_.check(cupti_.disable(kind), "cuptiActivityDisable");
}

// Device buffers for some 250000 records each, so that none is flushed within an iteration. Only a wish:
// where CUPTI does not grant it, records that find no room count as dropped.
void CuptiCollector::ask_for_room() const {
  struct Wish {
    CUpti_ActivityAttribute attribute;
    std::size_t value;
  };
  constexpr std::array wishes{Wish{CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE, std::size_t{8} << 20},
                              Wish{CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_POOL_LIMIT, 250},
                              Wish{CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_PRE_ALLOCATE_VALUE, 3}};
  for (Wish wish : wishes) {
    std::size_t size = sizeof(wish.value);
    cupti_.set_attribute(wish.attribute, &size, &wish.value);
  }
}

Result<void> CuptiCollector::start() {
  if (running_) return bad_usage("the collector runs already");
  iterations_.clear();
  noted_ = {};
  take_trace();
  if (auto enabled = enable_kinds(); !enabled) {
    static_cast<void>(disable_kinds());
    return enabled;
  }
  running_ = true;
  return {};
}

Result<void> CuptiCollector::enable_kinds() {
  for (const CUpti_ActivityKind kind : collected_kinds) {
    PIPEPLAN_CHECK(cupti_.check(cupti_.enable(kind), "cuptiActivityEnable"));
    enabled_.push_back(kind);
  }
  silence_calls(CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_SIZE, cupti_.enable_driver_api);
  silence_calls(CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_SIZE, cupti_.enable_runtime_api);
  return {};
}

// All calls are recorded unless told otherwise, so a refusal costs room, not records.
void CuptiCollector::silence_calls(CUpti_CallbackDomain domain, CUpti_CallbackId count,
                                   decltype(&cuptiActivityEnableDriverApi) enable_call) const {
  if (enable_call == nullptr) return;
  for (CUpti_CallbackId call = 1; call < count; ++call) {
    const char* name = nullptr;
    const bool named = cupti_.get_callback_name(domain, call, &name) == CUPTI_SUCCESS && name != nullptr;
    if (named && !worth_a_record(name)) enable_call(call, 0);
  }
}

void CuptiCollector::begin_iteration(std::int64_t number) {
  iteration_ = number;
  const std::int64_t start = amid_pause();
  iterations_.push_back({.number = number, .start = start, .end = start});
}

void CuptiCollector::end_iteration() {
  if (!iterations_.empty()) iterations_.back().end = amid_pause();
}

void CuptiCollector::begin_launch(const LaunchLabel& label) {
  if (!running_) return;
  const std::uint64_t tag = pack({.iteration = iteration_, .label = label});
  note(cupti_.push_external_id(tag_kind, tag), "cuptiActivityPushExternalCorrelationId");
}

void CuptiCollector::end_launch() {
  if (!running_) return;
  std::uint64_t tag = 0;
  note(cupti_.pop_external_id(tag_kind, &tag), "cuptiActivityPopExternalCorrelationId");
}

void CuptiCollector::note(CUptiResult status, const char* call) {
  if (status != CUPTI_SUCCESS && noted_) noted_ = cupti_.check(status, call);
}

Result<void> CuptiCollector::discard() {
  PIPEPLAN_CHECK(cupti_.check(cupti_.flush_all(0), "cuptiActivityFlushAll"));
  PIPEPLAN_CHECK(dropped_records());
  take_trace();
  iterations_.clear();
  return {};
}

Result<GpuTrace> CuptiCollector::stop() {
  if (!running_) return bad_usage("the collector was not started");
  running_ = false;
  const auto flushed =
      cupti_.check(cupti_.flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "cuptiActivityFlushAll");
  const auto dropped = dropped_records();
  const auto disabled = disable_kinds();
  GpuTrace trace = take_trace();
  PIPEPLAN_CHECK(flushed);
  PIPEPLAN_CHECK(dropped);
  PIPEPLAN_CHECK(disabled);
  PIPEPLAN_CHECK(noted_);
  trace.dropped_records += *dropped;
  return trace;
}

// Since the last time it was asked.
Result<std::int64_t> CuptiCollector::dropped_records() const {
  std::size_t count = 0;
  PIPEPLAN_CHECK(
      cupti_.check(cupti_.get_dropped_records(nullptr, 0, &count), "cuptiActivityGetNumDroppedRecords"));
  return static_cast<std::int64_t>(count);
}

// All that has come so far, with the iterations.
GpuTrace CuptiCollector::take_trace() {
  const std::lock_guard lock(sink().mutex);
  GpuTrace trace = sink().records.take();
  trace.iterations = std::move(iterations_);
  iterations_.clear();
  trace.dropped_records = std::exchange(sink().lost_records, 0);
  return trace;
}

Result<void> CuptiCollector::disable_kinds() {
  Result<void> outcome;
  for (const CUpti_ActivityKind kind : enabled_)
    if (auto disabled = cupti_.check(cupti_.disable(kind), "cuptiActivityDisable"); !disabled && outcome)
      outcome = disabled;
  enabled_.clear();
  return outcome;
}

void CuptiCollector::disconnect() {
  static_cast<void>(disable_kinds());
  if (subscriber_ != nullptr) cupti_.unsubscribe(subscriber_);
  const std::lock_guard lock(sink().mutex);
  if (sink().cupti != &cupti_) return;
  sink().cupti = nullptr;
  sink().records.clear();
}

}  // namespace

Result<std::unique_ptr<GpuCollector>> make_cupti_collector() {
  PIPEPLAN_TRY(cupti, load_cupti());
  auto collector = std::make_unique<CuptiCollector>(cupti);
  PIPEPLAN_CHECK(collector->connect());
  return std::unique_ptr<GpuCollector>(std::move(collector));
}

}  // namespace pipeplan
