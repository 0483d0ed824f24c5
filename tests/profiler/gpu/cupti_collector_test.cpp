// The collector against a library that plays CUPTI.

#include "profiler/cuda/cupti_collector.hpp"

#include <dlfcn.h>
#include <doctest/doctest.h>

#include <cstdlib>
#include <string>

#include "profiler/gpu/reduce.hpp"
#include "tests/support/fake_cupti.hpp"

namespace pipeplan {
namespace {

// Sets a variable of the environment for the rest of the scope.
class Setting {
 public:
  Setting(const char* name, const std::string& value) : name_(name) { setenv(name, value.c_str(), 1); }
  ~Setting() { unsetenv(name_); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* name_;
};

// A fresh fake; checks at the end that no call came at the wrong time.
class FakedCupti {
 public:
  FakedCupti() : library_("PIPEPLAN_CUPTI", FAKE_CUPTI), fake_(find()) { fake_.reset(); }
  ~FakedCupti() { CHECK(fake_.offences() == std::vector<std::string>{}); }
  FakedCupti(const FakedCupti&) = delete;
  FakedCupti& operator=(const FakedCupti&) = delete;

  test::FakeCupti* operator->() { return &fake_; }

  std::unique_ptr<GpuCollector> collector() {
    auto made = make_cupti_collector();
    REQUIRE_MESSAGE(made.has_value(), made.error().message);
    return *std::move(made);
  }

  // Work of `duration` ns as a queue would launch it.
  void run(GpuCollector& collector, std::int64_t layer, LayerPass pass, std::uint64_t duration) {
    collector.begin_launch({layer, pass, 0});
    fake_.launch("gemm", duration);
    collector.end_launch();
  }

 private:
  static test::FakeCupti& find() {
    void* symbols = dlopen(FAKE_CUPTI, RTLD_NOW | RTLD_LOCAL);
    REQUIRE(symbols != nullptr);
    return *reinterpret_cast<decltype(&fake_cupti)>(dlsym(symbols, "fake_cupti"))();
  }

  Setting library_;
  test::FakeCupti& fake_;
};

Error refusal() {
  const auto made = make_cupti_collector();
  REQUIRE_FALSE(made.has_value());
  CHECK(made.error().code == ErrorCode::unavailable);
  return made.error();
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("cupti collector: calls CUPTI in the order that it wants") {
  FakedCupti fake;
  {
    const auto collector = fake.collector();
    REQUIRE(collector->start().has_value());
    collector->begin_iteration(0);
    fake.run(*collector, 0, LayerPass::forward, 10);
    collector->end_iteration();
    REQUIRE(collector->discard().has_value());
    REQUIRE(collector->stop().has_value());
  }
  CHECK(fake->calls() ==
        std::vector<std::string>{
            "cuptiSubscribe", "cuptiActivitySetAttribute", "cuptiActivityRegisterTimestampCallback",
            "cuptiActivityRegisterCallbacks",
            // Whether tracing is allowed at all.
            "cuptiActivityEnable", "cuptiActivityDisable",
            // start, without a driver call that the fake has a name for
            "cuptiActivityEnable", "cuptiActivityEnableRuntimeApi",
            // one launch
            "cuptiActivityPushExternalCorrelationId", "cuptiActivityPopExternalCorrelationId",
            // discard, stop, the end
            "cuptiActivityFlushAll", "cuptiActivityGetNumDroppedRecords", "cuptiActivityFlushAll",
            "cuptiActivityGetNumDroppedRecords", "cuptiActivityDisable", "cuptiUnsubscribe"});
  CHECK_FALSE(fake->subscribed());
  CHECK(fake->enabled_kinds() == 0);
}

TEST_CASE("cupti collector: kernels come to the layer, pass and iteration that launched them") {
  FakedCupti fake;
  const auto collector = fake.collector();
  REQUIRE(collector->start().has_value());
  for (std::int64_t iteration = 0; iteration < 3; ++iteration) {
    const auto i = static_cast<std::uint64_t>(iteration);
    collector->begin_iteration(iteration);
    fake.run(*collector, 0, LayerPass::forward, 100 + i);
    fake.run(*collector, 1, LayerPass::forward, 200 + i);
    fake.run(*collector, 1, LayerPass::backward_input, 300 + i);
    fake.run(*collector, 1, LayerPass::backward_input, 400 + i);
    collector->end_iteration();
  }
  const auto trace = collector->stop();
  REQUIRE(trace.has_value());
  const ReducedTrace reduced = reduce(*trace);
  CHECK(reduced.cells.size() == 3 * 3);
  for (std::int64_t i = 0; i < 3; ++i) {
    CHECK(reduced.cells.at({i, 0, LayerPass::forward}).busy == Nanoseconds{100 + i});
    CHECK(reduced.cells.at({i, 1, LayerPass::forward}).busy == Nanoseconds{200 + i});
    CHECK(reduced.cells.at({i, 1, LayerPass::backward_input}).busy == Nanoseconds{300 + i + 400 + i});
    CHECK(reduced.cells.at({i, 1, LayerPass::backward_input}).launches == 2);
  }
  CHECK(reduced.unattributed.empty());
  CHECK(reduced.dirty_iterations.empty());
  CHECK(reduced.outside_records == 0);
  CHECK(reduced.complete());
  CHECK(fake->pushed_ids() == 0);
}

TEST_CASE("cupti collector: work stamped by a clock that is off stays in its iteration") {
  for (const std::int64_t error : {-50'000, 50'000}) {
    INFO("off by ", error, " ns");
    FakedCupti fake;
    fake->set_clock_error(error);
    const auto collector = fake.collector();
    REQUIRE(collector->start().has_value());
    for (std::int64_t iteration = 0; iteration < 2; ++iteration) {
      fake->copy(4096, 50);  // data of the iteration, brought right before it
      collector->begin_iteration(iteration);
      fake.run(*collector, 0, LayerPass::forward, 100);
      collector->end_iteration();
    }
    const auto trace = collector->stop();
    REQUIRE(trace.has_value());
    const ReducedTrace reduced = reduce(*trace);
    CHECK(reduced.dirty_iterations.empty());
    CHECK(reduced.outside_records == 2);
    REQUIRE(reduced.cells.size() == 2);
    for (const auto& [key, cell] : reduced.cells) CHECK(cell.busy == Nanoseconds{100});
  }
}

TEST_CASE("cupti collector: copies and allocations come to their layer, strays to nobody") {
  FakedCupti fake;
  const auto collector = fake.collector();
  REQUIRE(collector->start().has_value());
  collector->begin_iteration(4);
  collector->begin_launch({2, LayerPass::transfer, 1});
  fake->copy(4096, 50);
  fake->allocate(0x7000, 256);
  collector->end_launch();
  fake->launch("stray", 70);
  collector->end_iteration();
  const auto trace = collector->stop();
  REQUIRE(trace.has_value());
  const ReducedTrace reduced = reduce(*trace);
  const GpuCell& cell = reduced.cells.at({4, 2, LayerPass::transfer});
  CHECK(cell.busy == Nanoseconds{50});
  CHECK(cell.copied == Bytes{4096});
  CHECK(cell.live_change == Bytes{256});
  CHECK(reduced.unattributed == std::vector<UnattributedKernel>{{"stray", 1, Nanoseconds{70}}});
}

TEST_CASE("cupti collector: warm-ups are thrown away, with the records dropped in them") {
  FakedCupti fake;
  const auto collector = fake.collector();
  REQUIRE(collector->start().has_value());
  collector->begin_iteration(0);
  fake.run(*collector, 0, LayerPass::forward, 10);
  collector->end_iteration();
  fake->drop_records(5);
  REQUIRE(collector->discard().has_value());
  collector->begin_iteration(1);
  fake.run(*collector, 0, LayerPass::forward, 20);
  collector->end_iteration();
  const auto trace = collector->stop();
  REQUIRE(trace.has_value());
  CHECK(trace->dropped_records == 0);
  REQUIRE(trace->iterations.size() == 1);
  CHECK(trace->iterations[0].number == 1);
  REQUIRE(trace->work.size() == 1);
  CHECK(trace->work[0].end - trace->work[0].start == 20);
}

TEST_CASE("cupti collector: dropped and unreadable records make the trace incomplete") {
  FakedCupti fake;
  const auto collector = fake.collector();
  REQUIRE(collector->start().has_value());
  collector->begin_iteration(0);
  fake.run(*collector, 0, LayerPass::forward, 10);
  collector->end_iteration();
  fake->drop_records(3);
  fake->spoil_buffer();
  const auto trace = collector->stop();
  REQUIRE(trace.has_value());
  CHECK(trace->dropped_records == 3 + 1);
  CHECK_FALSE(reduce(*trace).complete());
}

TEST_CASE("cupti collector: calls that start nothing leave no records") {
  FakedCupti fake;
  const auto collector = fake.collector();
  REQUIRE(collector->start().has_value());
  CHECK_FALSE(fake->ask_for_device());
  REQUIRE(collector->stop().has_value());
}

TEST_CASE("cupti collector: where single calls cannot be silenced all are recorded") {
  FakedCupti fake;
  const Setting failure("FAKE_CUPTI_FAIL", "cuptiActivityEnableRuntimeApi=27");
  const auto collector = fake.collector();
  REQUIRE(collector->start().has_value());
  CHECK(fake->ask_for_device());
  collector->begin_iteration(0);
  fake.run(*collector, 0, LayerPass::forward, 10);
  collector->end_iteration();
  const auto trace = collector->stop();
  REQUIRE(trace.has_value());
  CHECK(reduce(*trace).cells.size() == 1);
}

TEST_CASE("cupti collector: starts again after a stop, with an empty trace") {
  FakedCupti fake;
  const auto collector = fake.collector();
  for (std::uint64_t round = 1; round <= 2; ++round) {
    REQUIRE(collector->start().has_value());
    collector->begin_iteration(0);
    fake.run(*collector, 0, LayerPass::forward, 10 * round);
    collector->end_iteration();
    const auto trace = collector->stop();
    REQUIRE(trace.has_value());
    REQUIRE(trace->work.size() == 1);
    CHECK(trace->work[0].end - trace->work[0].start == static_cast<std::int64_t>(10 * round));
    CHECK(trace->iterations.size() == 1);
  }
}

TEST_CASE("cupti collector: launches before the start and after the stop are not tagged") {
  FakedCupti fake;
  const auto collector = fake.collector();
  fake.run(*collector, 0, LayerPass::forward, 10);
  REQUIRE(collector->start().has_value());
  REQUIRE(collector->stop().has_value());
  fake.run(*collector, 0, LayerPass::forward, 10);
  for (const std::string& call : fake->calls()) CHECK(call != "cuptiActivityPushExternalCorrelationId");
}

TEST_CASE("cupti collector: a second start and a stop without start are refused") {
  FakedCupti fake;
  const auto collector = fake.collector();
  CHECK_FALSE(collector->stop().has_value());
  REQUIRE(collector->start().has_value());
  CHECK_FALSE(collector->start().has_value());
  CHECK(collector->stop().has_value());
}

TEST_CASE("cupti collector: refusals of CUPTI say what is wrong and what helps") {
  FakedCupti fake;
  struct Case {
    const char* failure;
    const char* message;
    const char* hint;
  };
  for (const Case& given :
       {Case{"cuptiActivityRegisterCallbacks=35", "may not trace", "CAP_SYS_ADMIN"},
        Case{"cuptiActivityEnable=35", "may not trace", "NVreg_RestrictProfilingToAdminUsers"},
        Case{"cuptiSubscribe=39", "another tool", "nsys"},
        Case{"cuptiActivityEnable=33", "virtual GPU", "passed through"},
        Case{"cuptiActivityEnable=40", "virtual machine", "host"},
        Case{"cuptiActivityEnable=41", "confidential", "outside"},
        Case{"cuptiActivityEnable=43", "MIG", "whole GPU"}, Case{"cuptiActivityEnable=45", "WSL", "Linux"},
        Case{"cuptiActivityEnable=999", "no driver", "nvidia-smi"}}) {
    INFO(given.failure);
    const Setting failure("FAKE_CUPTI_FAIL", given.failure);
    const Error error = refusal();
    CHECK(contains(error.message, given.message));
    CHECK(contains(error.hint, given.hint));
    CHECK(error.where == FAKE_CUPTI);
    CHECK_FALSE(fake->subscribed());
    fake->reset();
  }
}

TEST_CASE("cupti collector: other failures name the call, the number and what CUPTI says") {
  FakedCupti fake;
  const Setting failure("FAKE_CUPTI_FAIL", "cuptiActivityRegisterTimestampCallback=8");
  CHECK(refusal().message ==
        "CUPTI failed: cuptiActivityRegisterTimestampCallback gave error 8 (CUPTI_ERROR_FROM_THE_FAKE)");
}

TEST_CASE("cupti collector: attributes that are not granted are done without") {
  FakedCupti fake;
  const Setting failure("FAKE_CUPTI_FAIL", "cuptiActivitySetAttribute=27");
  CHECK(fake.collector() != nullptr);
}

TEST_CASE("cupti collector: a kind refused at the start leaves none enabled") {
  FakedCupti fake;
  const auto collector = fake.collector();
  const Setting failure("FAKE_CUPTI_FAIL", "cuptiActivityEnable(22)=35");
  const auto started = collector->start();
  REQUIRE_FALSE(started.has_value());
  CHECK(started.error().code == ErrorCode::unavailable);
  CHECK(fake->enabled_kinds() == 0);
  CHECK_FALSE(collector->stop().has_value());
}

TEST_CASE("cupti collector: a launch that could not be tagged shows at the stop") {
  FakedCupti fake;
  const auto collector = fake.collector();
  REQUIRE(collector->start().has_value());
  {
    const Setting failure("FAKE_CUPTI_FAIL", "cuptiActivityPushExternalCorrelationId=8");
    collector->begin_launch({0, LayerPass::forward, 0});
  }
  const auto trace = collector->stop();
  REQUIRE_FALSE(trace.has_value());
  CHECK(contains(trace.error().message, "cuptiActivityPushExternalCorrelationId gave error 8"));
  CHECK(fake->enabled_kinds() == 0);
}

TEST_CASE("cupti collector: a flush that fails shows at the stop, and kinds are disabled") {
  FakedCupti fake;
  const auto collector = fake.collector();
  REQUIRE(collector->start().has_value());
  const Setting failure("FAKE_CUPTI_FAIL", "cuptiActivityFlushAll=999");
  CHECK_FALSE(collector->stop().has_value());
  CHECK(fake->enabled_kinds() == 0);
}

TEST_CASE("cupti collector: only one at a time, and the next one after it is gone") {
  FakedCupti fake;
  {
    const auto first = fake.collector();
    CHECK(contains(refusal().message, "another tool"));
    REQUIRE(first->start().has_value());
    fake.run(*first, 0, LayerPass::forward, 10);
    CHECK(first->stop()->work.size() == 1);  // the refused one has not unhooked it
  }
  CHECK(fake.collector() != nullptr);
}

TEST_CASE("cupti collector: destroyed while it runs it disables and unsubscribes") {
  FakedCupti fake;
  CHECK(fake.collector()->start().has_value());
  CHECK(fake->enabled_kinds() == 0);
  CHECK_FALSE(fake->subscribed());
}

TEST_CASE("cupti collector: another major version is refused before anything is called") {
  FakedCupti fake;
  const Setting version("FAKE_CUPTI_VERSION", "120004");
  CHECK(refusal().message.starts_with("is CUPTI of CUDA 12 (version 120004), wanted CUDA "));
  CHECK(fake->calls().empty());
}

TEST_CASE("cupti collector: a library that is missing or no CUPTI is refused by name") {
  {
    const Setting missing("PIPEPLAN_CUPTI", "/nowhere/libcupti.so");
    const Error error = refusal();
    CHECK(error.message == "CUPTI is not to be loaded, looked at /nowhere/libcupti.so");
    CHECK(contains(error.hint, "PIPEPLAN_CUPTI"));
  }
  const Setting other("PIPEPLAN_CUPTI", "libm.so.6");
  CHECK(refusal().message == "has no cuptiGetVersion, wanted CUPTI");
  CHECK(refusal().where == "libm.so.6");
}

}  // namespace pipeplan
