#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "tests/gpu/queues.hpp"

using namespace pipeplan;
using namespace pipeplan::test;

namespace {

std::vector<std::int64_t> sm_numbers(GpuQueue& queue) {
  auto numbers = queue.sm_numbers();
  if (!numbers) FAIL(numbers.error().message);
  return *numbers;
}

std::vector<std::int64_t> common(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b) {
  std::vector<std::int64_t> both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return both;
}

GpuDevice first_gpu() {
  const auto devices = backend().devices();
  REQUIRE(devices.has_value());
  return devices->front();
}

std::string listed(const std::vector<std::int64_t>& numbers) {
  std::string text;
  for (const std::int64_t number : numbers) text += std::to_string(number) + " ";
  return text;
}

}  // namespace

TEST_CASE("cuda_backend: the whole device and plain streams have all SMs") {
  const std::int64_t all = first_gpu().sm_count;
  CHECK(open_queue()->part().sm_count == all);
  CHECK(std::ssize(sm_numbers(*open_queue())) == all);
  const Queues streams = open_queues(PartitionKind::streams, {{.name = "a"}, {.name = "b"}});
  for (const auto& queue : streams) CHECK(queue->part().sm_count == all);
}

TEST_CASE("cuda_backend: two queues cannot both have the whole device") {
  const std::vector<PartRequest> requests{{.name = "a"}, {.name = "b"}};
  const auto queues = backend().open(PartitionKind::device, requests);
  REQUIRE_FALSE(queues.has_value());
  CHECK(queues.error().code == ErrorCode::bad_usage);
}

TEST_CASE("cuda_backend: a GPU that is not there is refused by name") {
  const std::vector<PartRequest> requests{{.name = "stage 1", .device = 99}};
  const auto queues = backend().open(PartitionKind::device, requests);
  REQUIRE_FALSE(queues.has_value());
  CHECK(queues.error().where == "stage 1");
  CHECK(queues.error().code == ErrorCode::unavailable);
}

TEST_CASE("green contexts: disjoint SMs, as many as granted") {
  const GpuDevice gpu = first_gpu();
  REQUIRE(gpu.smallest_partition_sms > 0);
  for (const std::size_t count : {std::size_t{2}, std::size_t{4}}) {
    const Queues queues =
        open_queues(PartitionKind::green, std::vector<PartRequest>(count, {.name = "stage"}));
    std::vector<std::vector<std::int64_t>> numbers;
    for (const auto& queue : queues) {
      numbers.push_back(sm_numbers(*queue));
      MESSAGE(count, " parts: ", queue->part().sm_count, " SMs granted, ran on ", listed(numbers.back()));
      CHECK(queue->part().sm_count < gpu.sm_count);
      CHECK(std::ssize(numbers.back()) == queue->part().sm_count);
    }
    for (std::size_t i = 0; i < count; ++i)
      for (std::size_t j = i + 1; j < count; ++j) CHECK(common(numbers[i], numbers[j]).empty());
  }
}

TEST_CASE("green contexts: uneven sizes are granted in whole groups") {
  const std::int64_t least = first_gpu().smallest_partition_sms;
  const Queues queues = open_queues(
      PartitionKind::green, {{.name = "a", .sm_count = 3 * least}, {.name = "b", .sm_count = 2 * least - 1}});
  CHECK(queues[0]->part().sm_count == 3 * least);
  CHECK(queues[1]->part().sm_count == least);
  CHECK(common(sm_numbers(*queues[0]), sm_numbers(*queues[1])).empty());
}

TEST_CASE("green contexts: a sibling runs on the same SMs") {
  const std::int64_t least = first_gpu().smallest_partition_sms;
  const Queues queues = open_queues(PartitionKind::green, {{.name = "a", .sm_count = least}});
  auto sibling = queues[0]->make_sibling("copies");
  REQUIRE(sibling.has_value());
  CHECK(sm_numbers(**sibling) == sm_numbers(*queues[0]));
}

TEST_CASE("green contexts: memory and events are shared among parts") {
  const Queues queues = open_queues(PartitionKind::green, {{.name = "a"}, {.name = "b"}});
  auto filled = queues[0]->make_event(EventUse::timing);
  auto sent = queues[1]->make_event(EventUse::timing);
  REQUIRE(filled.has_value());
  REQUIRE(sent.has_value());
  const Tensor source(*queues[0], 1000), target(*queues[1], 1000);
  queues[0]->idle(std::chrono::milliseconds(2));
  queues[0]->fill(source.place(), 1000, 4);
  queues[0]->record(**filled);
  queues[1]->wait(**filled);
  queues[1]->send(source.place(), *queues[0], target.place(), 1000);
  queues[1]->record(**sent);
  finish(*queues[1]);
  CHECK(target.values() == std::vector<float>(1000, 4));
  const auto elapsed = queues[1]->elapsed(**filled, **sent);
  REQUIRE(elapsed.has_value());
  CHECK(elapsed->count() >= 0);
}
