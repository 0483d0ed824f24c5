#include "tests/support/fake_cupti.hpp"

#include <cupti.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <set>
#include <string_view>
#include <utility>

namespace pipeplan::test {
namespace {

constexpr std::size_t records_per_buffer = 3;  // odd, so that tags and their calls come apart
constexpr std::uint32_t context_id = 1, stream_id = 13;

using Record = std::vector<std::uint8_t>;

template<class Struct>
Record as_record(const Struct& record) {
  Record bytes(sizeof record);
  std::memcpy(bytes.data(), &record, sizeof record);
  return bytes;
}

CUpti_ActivityKind kind_of(const std::uint8_t* record) {
  CUpti_ActivityKind kind;
  std::memcpy(&kind, record, sizeof kind);
  return kind;
}

std::size_t size_of(CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: return sizeof(CUpti_ActivityKernel10);
    case CUPTI_ACTIVITY_KIND_MEMCPY: return sizeof(CUpti_ActivityMemcpy6);
    case CUPTI_ACTIVITY_KIND_MEMORY2: return sizeof(CUpti_ActivityMemory4);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: return sizeof(CUpti_ActivityExternalCorrelation);
    case CUPTI_ACTIVITY_KIND_RUNTIME: return sizeof(CUpti_ActivityAPI);
    default: return 0;
  }
}

class Fake final : public FakeCupti {
 public:
  void reset() override { *this = {}; }

  void launch(const char* kernel, std::uint64_t duration) override {
    const std::uint64_t start = call(CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000);
    CUpti_ActivityKernel10 record{};
    record.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    record.name = kernel;
    run(record, start, duration);
  }

  void copy(std::uint64_t bytes, std::uint64_t duration) override {
    const std::uint64_t start = call(CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020);
    CUpti_ActivityMemcpy6 record{};
    record.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
    record.bytes = bytes;
    run(record, start, duration);
  }

  void allocate(std::uint64_t address, std::uint64_t bytes) override {
    CUpti_ActivityMemory4 record{};
    record.kind = CUPTI_ACTIVITY_KIND_MEMORY2;
    record.memoryOperationType = CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION;
    record.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
    record.address = address;
    record.bytes = bytes;
    record.timestamp = call(CUPTI_RUNTIME_TRACE_CBID_cudaMallocAsync_v11020);
    record.correlationId = correlation_;
    keep(record);
  }

  bool ask_for_device() override {
    const std::size_t before = records_.size();
    call(CUPTI_RUNTIME_TRACE_CBID_cudaGetDevice_v3020);
    return records_.size() > before;
  }

  void set_clock_error(std::int64_t error) override { clock_error_ = error; }
  void drop_records(std::uint64_t count) override { dropped_ += count; }
  void spoil_buffer() override { spoilt_ = true; }

  [[nodiscard]] std::vector<std::string> calls() const override { return calls_; }
  [[nodiscard]] std::vector<std::string> offences() const override { return offences_; }
  [[nodiscard]] bool subscribed() const override { return subscribed_; }
  [[nodiscard]] std::size_t enabled_kinds() const override { return kinds_.size(); }
  [[nodiscard]] std::size_t pushed_ids() const override { return external_ids_.size(); }

  // Notes the call, and says what it is to answer.
  CUptiResult enter(const std::string& function, int kind = 0) {
    if (calls_.empty() || calls_.back() != function) calls_.push_back(function);
    const char* plan = std::getenv("FAKE_CUPTI_FAIL");
    const std::string_view wanted = plan == nullptr ? "" : plan;
    const std::size_t sign = wanted.find('=');
    if (sign == std::string_view::npos) return CUPTI_SUCCESS;
    const std::string_view failing = wanted.substr(0, sign);
    if (failing != function && failing != function + "(" + std::to_string(kind) + ")") return CUPTI_SUCCESS;
    return static_cast<CUptiResult>(std::atoi(plan + sign + 1));
  }

  void expect(bool good, const char* offence) {
    if (!good) offences_.emplace_back(offence);
  }

  CUptiResult subscribe(CUpti_SubscriberHandle* subscriber) {
    if (const CUptiResult status = enter("cuptiSubscribe"); status != CUPTI_SUCCESS) return status;
    if (subscribed_) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
    subscribed_ = true;
    *subscriber = reinterpret_cast<CUpti_SubscriberHandle>(this);
    return CUPTI_SUCCESS;
  }

  CUptiResult unsubscribe() {
    if (const CUptiResult status = enter("cuptiUnsubscribe"); status != CUPTI_SUCCESS) return status;
    expect(subscribed_, "unsubscribed without a subscription");
    expect(kinds_.empty(), "unsubscribed while kinds are enabled");
    subscribed_ = false;
    clock_ = nullptr;
    request_ = nullptr;
    complete_ = nullptr;
    return CUPTI_SUCCESS;
  }

  CUptiResult set_attribute() {
    expect(subscribed_, "attribute set before subscribing");
    expect(complete_ == nullptr, "attribute set after the callbacks");
    return enter("cuptiActivitySetAttribute");
  }

  CUptiResult register_clock(CUpti_TimestampCallbackFunc clock) {
    expect(subscribed_, "clock registered before subscribing");
    expect(kinds_.empty(), "clock registered after kinds were enabled");
    const CUptiResult status = enter("cuptiActivityRegisterTimestampCallback");
    if (status == CUPTI_SUCCESS) clock_ = clock;
    return status;
  }

  CUptiResult register_callbacks(CUpti_BuffersCallbackRequestFunc request,
                                 CUpti_BuffersCallbackCompleteFunc complete) {
    expect(clock_ != nullptr, "callbacks registered before the clock");
    expect(kinds_.empty(), "callbacks registered after kinds were enabled");
    const CUptiResult status = enter("cuptiActivityRegisterCallbacks");
    if (status != CUPTI_SUCCESS) return status;
    request_ = request;
    complete_ = complete;
    return CUPTI_SUCCESS;
  }

  CUptiResult enable(CUpti_ActivityKind kind) {
    expect(complete_ != nullptr, "kind enabled before the callbacks");
    expect(kind != CUPTI_ACTIVITY_KIND_KERNEL, "KERNEL enabled, which runs kernels one at a time");
    expect(!launched_ || kinds_.empty(), "kind enabled amid the measurement");
    const CUptiResult status = enter("cuptiActivityEnable", kind);
    if (status != CUPTI_SUCCESS) return status;
    expect(kinds_.insert(kind).second, "kind enabled twice");
    silent_.clear();
    return CUPTI_SUCCESS;
  }

  CUptiResult disable(CUpti_ActivityKind kind) {
    const CUptiResult status = enter("cuptiActivityDisable", kind);
    expect(kinds_.erase(kind) == 1, "kind disabled that was not enabled");
    if (kinds_.empty()) launched_ = false;
    return status;
  }

  CUptiResult choose_call(const char* function, bool runtime, CUpti_CallbackId call, std::uint8_t enabled) {
    expect(kinds_.contains(runtime ? CUPTI_ACTIVITY_KIND_RUNTIME : CUPTI_ACTIVITY_KIND_DRIVER),
           "call chosen before its kind was enabled");
    if (const CUptiResult status = enter(function); status != CUPTI_SUCCESS) return status;
    if (runtime && enabled == 0) silent_.insert(call);
    return CUPTI_SUCCESS;
  }

  CUptiResult push(CUpti_ExternalCorrelationKind kind, std::uint64_t id) {
    expect(kind == CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, "external id of another kind");
    const CUptiResult status = enter("cuptiActivityPushExternalCorrelationId");
    if (status == CUPTI_SUCCESS) external_ids_.push_back(id);
    return status;
  }

  CUptiResult pop(std::uint64_t* id) {
    if (const CUptiResult s = enter("cuptiActivityPopExternalCorrelationId"); s != CUPTI_SUCCESS) return s;
    if (external_ids_.empty()) return CUPTI_ERROR_QUEUE_EMPTY;
    *id = external_ids_.back();
    external_ids_.pop_back();
    return CUPTI_SUCCESS;
  }

  CUptiResult dropped(std::size_t* count) {
    const CUptiResult status = enter("cuptiActivityGetNumDroppedRecords");
    *count = std::exchange(dropped_, 0);
    return status;
  }

  CUptiResult flush() {
    if (const CUptiResult status = enter("cuptiActivityFlushAll"); status != CUPTI_SUCCESS) return status;
    if (complete_ == nullptr) return CUPTI_ERROR_INVALID_OPERATION;
    std::stable_partition(records_.begin(), records_.end(), [](const Record& record) {
      return kind_of(record.data()) == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    });
    while (!records_.empty()) hand_out_buffer();
    return CUPTI_SUCCESS;
  }

 private:
  [[nodiscard]] std::uint64_t now() const { return clock_ == nullptr ? 0 : clock_(); }

  // An API call: its tag's record, then its own, as CUPTI orders them. Returns when its work may start.
  std::uint64_t call(CUpti_CallbackId function) {
    launched_ = !kinds_.empty();
    ++correlation_;
    CUpti_ActivityAPI record{};
    record.kind = CUPTI_ACTIVITY_KIND_RUNTIME;
    record.cbid = function;
    record.correlationId = correlation_;
    record.start = now();
    record.end = record.start + 1;
    if (!kinds_.contains(CUPTI_ACTIVITY_KIND_RUNTIME) || silent_.contains(function)) return record.end;
    if (!external_ids_.empty()) {
      CUpti_ActivityExternalCorrelation tag{};
      tag.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
      tag.externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
      tag.externalId = external_ids_.back();
      tag.correlationId = correlation_;
      keep(tag);
    }
    keep(record);
    return record.end;
  }

  void run(auto& record, std::uint64_t start, std::uint64_t duration) {
    record.start = start;
    record.end = start + duration;
    record.correlationId = correlation_;
    record.contextId = context_id;
    record.streamId = stream_id;
    while (clock_ != nullptr && now() < record.end) continue;
    record.start += static_cast<std::uint64_t>(clock_error_);
    record.end += static_cast<std::uint64_t>(clock_error_);
    keep(record);
  }

  void keep(const auto& record) {
    if (kinds_.contains(record.kind)) records_.push_back(as_record(record));
  }

  void hand_out_buffer() {
    std::uint8_t* buffer = nullptr;
    std::size_t size = 0, most_records = 1;
    request_(&buffer, &size, &most_records);
    expect(buffer != nullptr && reinterpret_cast<std::uintptr_t>(buffer) % ACTIVITY_RECORD_ALIGNMENT == 0,
           "buffer not aligned");
    expect(most_records == 0, "buffer with a limit of records");
    std::size_t used = 0;
    for (std::size_t i = 0; i < records_per_buffer && !records_.empty(); ++i) {
      std::memcpy(buffer + used, records_.front().data(), records_.front().size());
      used += records_.front().size();
      records_.pop_front();
    }
    if (std::exchange(spoilt_, false)) {
      std::memset(buffer + used, 0, sizeof(CUpti_Activity));
      used += sizeof(CUpti_Activity);
    }
    complete_(nullptr, 0, buffer, size, used);
  }

  std::vector<std::string> calls_, offences_;
  bool subscribed_ = false, launched_ = false, spoilt_ = false;
  CUpti_TimestampCallbackFunc clock_ = nullptr;
  CUpti_BuffersCallbackRequestFunc request_ = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete_ = nullptr;
  std::set<CUpti_ActivityKind> kinds_;
  std::set<CUpti_CallbackId> silent_;
  std::vector<std::uint64_t> external_ids_;
  std::deque<Record> records_;
  std::uint32_t correlation_ = 0;
  std::size_t dropped_ = 0;
  std::int64_t clock_error_ = 0;
};

Fake& fake() {
  static Fake only;
  return only;
}

// The few calls of the runtime that the fake knows; all others have no name.
const char* runtime_call_name(CUpti_CallbackId call) {
  switch (call) {
    case CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000: return "cudaLaunchKernel_v7000";
    case CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020: return "cudaMemcpyAsync_v3020";
    case CUPTI_RUNTIME_TRACE_CBID_cudaMallocAsync_v11020: return "cudaMallocAsync_v11020";
    case CUPTI_RUNTIME_TRACE_CBID_cudaGetDevice_v3020: return "cudaGetDevice_v3020";
    default: return nullptr;
  }
}

}  // namespace
}  // namespace pipeplan::test

using pipeplan::test::fake;

extern "C" {

pipeplan::test::FakeCupti* fake_cupti() { return &fake(); }

CUptiResult cuptiGetVersion(std::uint32_t* version) {
  const char* wanted = std::getenv("FAKE_CUPTI_VERSION");
  *version = wanted == nullptr ? CUPTI_API_VERSION : static_cast<std::uint32_t>(std::atoi(wanted));
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetResultString(CUptiResult, const char** text) {
  *text = "CUPTI_ERROR_FROM_THE_FAKE";
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain domain, std::uint32_t call, const char** name) {
  *name = domain == CUPTI_CB_DOMAIN_RUNTIME_API ? pipeplan::test::runtime_call_name(call) : nullptr;
  return *name == nullptr ? CUPTI_ERROR_INVALID_PARAMETER : CUPTI_SUCCESS;
}

CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc, void*) {
  return fake().subscribe(subscriber);
}

CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle) { return fake().unsubscribe(); }

CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute, size_t*, void*) {
  return fake().set_attribute();
}

CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc clock) {
  return fake().register_clock(clock);
}

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                           CUpti_BuffersCallbackCompleteFunc complete) {
  return fake().register_callbacks(request, complete);
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) { return fake().enable(kind); }
CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) { return fake().disable(kind); }

CUptiResult cuptiActivityEnableDriverApi(CUpti_CallbackId call, std::uint8_t enabled) {
  return fake().choose_call("cuptiActivityEnableDriverApi", false, call, enabled);
}

CUptiResult cuptiActivityEnableRuntimeApi(CUpti_CallbackId call, std::uint8_t enabled) {
  return fake().choose_call("cuptiActivityEnableRuntimeApi", true, call, enabled);
}

CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind, std::uint64_t id) {
  return fake().push(kind, id);
}

CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind, std::uint64_t* id) {
  return fake().pop(id);
}

CUptiResult cuptiActivityFlushAll(std::uint32_t) { return fake().flush(); }

CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, std::uint32_t, size_t* count) {
  return fake().dropped(count);
}

CUptiResult cuptiActivityGetNextRecord(std::uint8_t* buffer, size_t valid_bytes, CUpti_Activity** record) {
  std::uint8_t* next = buffer;
  if (*record != nullptr) {
    next = reinterpret_cast<std::uint8_t*>(*record);
    next += pipeplan::test::size_of(pipeplan::test::kind_of(next));
  }
  if (next >= buffer + valid_bytes) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  if (pipeplan::test::size_of(pipeplan::test::kind_of(next)) == 0) return CUPTI_ERROR_INVALID_KIND;
  *record = reinterpret_cast<CUpti_Activity*>(next);
  return CUPTI_SUCCESS;
}
}
