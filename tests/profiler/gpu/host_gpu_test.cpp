// The GPU that is none is what other tests stand on: its clock and its complaints.

#include "tests/support/host_gpu.hpp"

#include <doctest/doctest.h>

#include <array>

namespace pipeplan {
namespace {

using test::HostGpu;
using Queues = std::vector<std::unique_ptr<GpuQueue>>;

Queues open_two(HostGpu& gpu) {
  const std::array<PartRequest, 2> requests{PartRequest{.name = "a"}, PartRequest{.name = "b"}};
  return gpu.open(PartitionKind::green, requests).value();
}

void launch(GpuQueue& queue) { const LaunchScope scope(queue, {.pass = LayerPass::forward}); }

}  // namespace

TEST_CASE("host gpu: queues run side by side, and waiting for an event moves a queue up to it") {
  HostGpu gpu;
  const Queues queues = open_two(gpu);
  const auto start = queues[0]->make_event(EventUse::timing).value();
  const auto first = queues[0]->make_event(EventUse::timing).value();
  const auto alone = queues[0]->make_event(EventUse::timing).value();
  const auto after = queues[0]->make_event(EventUse::timing).value();
  queues[0]->record(*start);
  launch(*queues[0]);
  queues[0]->idle(Nanoseconds{70});
  queues[0]->record(*first);
  launch(*queues[1]);
  queues[1]->record(*alone);
  queues[1]->wait(*first);
  launch(*queues[1]);
  queues[1]->record(*after);
  CHECK_FALSE(queues[1]->elapsed(*start, *after).has_value());  // the host has not waited for it
  REQUIRE(queues[1]->synchronize().has_value());
  CHECK(queues[0]->elapsed(*start, *first) == Nanoseconds{1000 + 70});
  CHECK(queues[0]->elapsed(*start, *alone) == Nanoseconds{1000});
  CHECK(queues[0]->elapsed(*start, *after) == Nanoseconds{1000 + 70 + 1000});
  CHECK(gpu.host_wait_count() == 1);
  CHECK(gpu.misuses().empty());
}

TEST_CASE("host gpu: what a GPU lets pass in silence is complained of") {
  HostGpu gpu;
  const Queues queues = open_two(gpu);
  const auto never = queues[0]->make_event(EventUse::ordering).value();
  queues[0]->wait(*never);
  CHECK(gpu.misuses().size() == 1);
  queues[0]->begin({});
  queues[0]->begin({});
  CHECK(gpu.misuses().size() == 2);
  queues[0]->end();
  queues[0]->end();
  CHECK(gpu.misuses().size() == 3);
  float value = 0, gradient = 0;
  queues[0]->step({}, 1, 1, &value, &gradient, nullptr);
  CHECK(gpu.misuses().size() == 4);
  const auto collector = gpu.make_collector().value();
  REQUIRE(collector->start().has_value());
  collector->begin_iteration(0);
  launch(*queues[0]);
  collector->end_iteration();
  CHECK(gpu.misuses().size() == 5);
}

TEST_CASE("host gpu: green contexts share out the SMs in groups of 8 and refuse more than there are") {
  HostGpu gpu;
  const std::array<PartRequest, 3> uneven{PartRequest{.name = "a", .sm_count = 40}, PartRequest{.name = "b"},
                                          PartRequest{.name = "c"}};
  const Queues queues = gpu.open(PartitionKind::green, uneven).value();
  CHECK(queues[0]->part().sm_count == 5 * 8);
  // 132 SMs are 16 groups; 16 - 5 of them for two.
  CHECK(queues[1]->part().sm_count + queues[2]->part().sm_count <= (16 - 5) * 8);
  CHECK(queues[2]->part().sm_count >= 5 * 8);
  const std::array<PartRequest, 2> greedy{PartRequest{.name = "a", .sm_count = 72},
                                          PartRequest{.name = "b", .sm_count = 72}};
  CHECK_FALSE(gpu.open(PartitionKind::green, greedy).has_value());
}

TEST_CASE("host gpu: after a failure nothing happens until it has been told") {
  HostGpu gpu({.failing_launch = 2});
  const Queues queues = open_two(gpu);
  float value = 0;
  launch(*queues[0]);
  launch(*queues[0]);
  queues[0]->fill(&value, 1, 5.0F);
  CHECK(value == 0);
  const auto told = queues[0]->synchronize();
  REQUIRE_FALSE(told.has_value());
  CHECK(told.error().where == "a on device 0");
  queues[0]->fill(&value, 1, 5.0F);
  CHECK(value == 5);
  CHECK(queues[0]->synchronize().has_value());
}

}  // namespace pipeplan
