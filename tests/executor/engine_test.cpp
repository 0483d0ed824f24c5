#include "executor/engine.hpp"

#include <doctest/doctest.h>

#include <map>

namespace pipeplan {
namespace {

// Gives every command a start and a length that the test has chosen.
class ScriptedDevice : public Device {
 public:
  ScriptedDevice(Nanoseconds start, Nanoseconds length, Bytes peak) : now_(start), length_(length) {
    memory_.peak[MemoryItem::weights] = peak;
  }
  Result<void> begin_iteration(std::int64_t) override {
    stamps_.clear();
    return {};
  }
  void enqueue(const Command& command) override {
    stamps_.push_back({.command = command.id, .start = now_, .end = now_ + length_, .cpu = length_ / 2});
    now_ += length_;
  }
  Result<void> wait_all() override {
    if (fails) return fail(ErrorCode::unavailable, "device", "is gone");
    return {};
  }
  Result<std::vector<Stamp>> stamps() override { return stamps_; }
  [[nodiscard]] RankMemory memory() const override { return memory_; }

  bool fails = false;

 private:
  Nanoseconds now_, length_;
  std::vector<Stamp> stamps_;
  RankMemory memory_;
};

}  // namespace

TEST_CASE("engine: an op lasts from its earliest start to its latest end among the workers of its rank") {
  const Schedule schedule = make_schedule(ScheduleKind::gpipe, 1, 1);
  Program program = compile(schedule, {.replicas = {2}, .data_parallel = 1, .micro_batch_size = 2}).value();
  PerId<WorkerId, std::unique_ptr<Device>> devices;
  devices.push_back(std::make_unique<ScriptedDevice>(Nanoseconds{100}, Nanoseconds{10}, Bytes{5}));
  devices.push_back(std::make_unique<ScriptedDevice>(Nanoseconds{103}, Nanoseconds{20}, Bytes{8}));
  Engine engine(std::move(program), std::move(devices), {});
  const auto result = engine.run_iteration(0);
  REQUIRE(result.has_value());
  const Timeline& timeline = result->timeline;
  REQUIRE(timeline.spans.size() == 2);
  CHECK(timeline.spans[0].start == Nanoseconds{100 - 100});
  CHECK(timeline.spans[0].end == Nanoseconds{103 + 20 - 100});
  CHECK(timeline.spans[1].start == Nanoseconds{100 + 10 - 100});
  CHECK(timeline.makespan == Nanoseconds{103 + 2 * 20 - 100});
  // F, X, reduce_scatter, all_gather, step.
  CHECK(timeline.iteration == Nanoseconds{103 + 5 * 20 - 100});
  REQUIRE(timeline.memory.size() == 1);
  CHECK(timeline.memory[RankId{0}].peak.total() == Bytes{8});
  CHECK(result->load.wall == Nanoseconds{2 * 10 + 2 * 20});
  CHECK(result->load.cpu == Nanoseconds{2 * 5 + 2 * 10});
}

TEST_CASE("engine: of several copies the one that finished last is shown, and times cover all") {
  const Schedule schedule = make_schedule(ScheduleKind::gpipe, 1, 1);
  Program program = compile(schedule, {.replicas = {1}, .data_parallel = 2, .micro_batch_size = 1}).value();
  PerId<WorkerId, std::unique_ptr<Device>> devices;
  devices.push_back(std::make_unique<ScriptedDevice>(Nanoseconds{100}, Nanoseconds{20}, Bytes{5}));
  devices.push_back(std::make_unique<ScriptedDevice>(Nanoseconds{90}, Nanoseconds{10}, Bytes{8}));
  Engine engine(std::move(program), std::move(devices), {});
  const auto result = engine.run_iteration(0);
  REQUIRE(result.has_value());
  REQUIRE(result->timeline.spans.size() == 2);
  CHECK(result->timeline.spans[0].end - result->timeline.spans[0].start == Nanoseconds{20});
  CHECK(result->timeline.spans[0].start == Nanoseconds{100 - 90});
  CHECK(result->timeline.iteration == Nanoseconds{100 + 5 * 20 - 90});
  CHECK(result->timeline.memory[RankId{0}].peak.total() == Bytes{8});
}

TEST_CASE("engine: what goes wrong on a device is the answer of the iteration") {
  const Schedule schedule = make_schedule(ScheduleKind::gpipe, 1, 1);
  auto device = std::make_unique<ScriptedDevice>(Nanoseconds{0}, Nanoseconds{1}, Bytes{1});
  device->fails = true;
  PerId<WorkerId, std::unique_ptr<Device>> devices;
  devices.push_back(std::move(device));
  Engine engine(compile(schedule, no_replication(schedule)).value(), std::move(devices), {});
  const auto result = engine.run_iteration(0);
  REQUIRE(!result.has_value());
  CHECK(result.error().message == "is gone");
}

}  // namespace pipeplan
