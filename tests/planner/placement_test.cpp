#include "planner/placement.hpp"

#include <doctest/doctest.h>

#include "tests/planner/instances.hpp"

using namespace pipeplan;
using namespace pipeplan::test;

namespace {

constexpr BytesPerSecond byte_per_ns{1'000'000'000};

std::vector<DeviceId> devices(std::initializer_list<std::int32_t> numbers) {
  std::vector<DeviceId> ids;
  for (const std::int32_t number : numbers) ids.push_back(DeviceId{number});
  return ids;
}

StagePlan stage(std::int32_t rank, std::int64_t replicas, std::initializer_list<std::int32_t> numbers) {
  return {LayerId{0}, LayerId{0}, RankId{rank}, devices(numbers), replicas, {}};
}

// Eight devices, 10 ns from each other, but 99 ns between 0 and 3.
Cluster with_one_slow_pair() {
  Cluster cluster = cluster_of(std::vector<DeviceType>(8), {byte_per_ns, Nanoseconds{10}});
  cluster.links.push_back({DeviceId{0}, DeviceId{3}, {BytesPerSecond{7}, Nanoseconds{99}}});
  return cluster;
}

}  // namespace

TEST_CASE("common_device: the lowest speed of all, the memory of the one with the least room") {
  DeviceType fast, small;
  fast.speed_factor = 2;
  fast.memory = Bytes{50};
  fast.reserved = Bytes{30};
  small.memory = Bytes{40};
  small.reserved = Bytes{5};
  const Cluster cluster = cluster_of({fast, small, DeviceType{}});
  const DeviceType common = common_device(cluster, devices({1, 0, 2}));
  CHECK(common.speed_factor == 1);
  CHECK(common.memory == Bytes{50});
  CHECK(common.reserved == Bytes{30});
  CHECK(common_device(cluster, devices({0})).speed_factor == 2);
  CHECK_FALSE(common_device(cluster, devices({2})).memory);
}

TEST_CASE("boundary_link: only links between replicas that share samples count") {
  const Cluster cluster = with_one_slow_pair();
  const auto latency = [&](const StagePlan& from, const StagePlan& to) {
    return boundary_link(cluster, from, to).latency.count();
  };
  CHECK(latency(stage(0, 2, {0, 1}), stage(1, 2, {2, 3})) == 10);
  CHECK(latency(stage(0, 2, {0, 1}), stage(1, 2, {3, 2})) == 99);
  CHECK(latency(stage(0, 1, {0}), stage(1, 2, {2, 3})) == 99);
  CHECK(latency(stage(0, 2, {1, 0}), stage(1, 1, {3})) == 99);
  // Of two senders and four receivers, 0 shares with 1 and 2, 4 with 3 and 5.
  CHECK(latency(stage(0, 2, {0, 4}), stage(1, 4, {1, 2, 3, 5})) == 10);
  CHECK(latency(stage(0, 2, {0, 4}), stage(1, 4, {1, 3, 2, 5})) == 99);
  // Of two senders and three receivers both share with the middle one.
  CHECK(latency(stage(0, 2, {4, 0}), stage(1, 3, {1, 3, 2})) == 99);
  CHECK(latency(stage(0, 2, {4, 0}), stage(1, 3, {3, 1, 2})) == 10);
}

TEST_CASE("boundary_link: copies of the pipeline send among themselves alone, and the slowest counts") {
  const Cluster cluster = with_one_slow_pair();
  CHECK(boundary_link(cluster, stage(0, 1, {0, 1}), stage(1, 1, {2, 3})).latency == Nanoseconds{10});
  CHECK(boundary_link(cluster, stage(0, 1, {1, 0}), stage(1, 1, {2, 3})) ==
        Link{BytesPerSecond{7}, Nanoseconds{99}});
}

TEST_CASE("boundary_link: nothing is sent between stages of one rank") {
  CHECK(boundary_link(with_one_slow_pair(), stage(2, 1, {0}), stage(2, 1, {0})) == Link{});
}

TEST_CASE("ring_link: the slowest between neighbours in the ring, also from the last to the first") {
  const Cluster cluster = with_one_slow_pair();
  CHECK(ring_link(cluster, devices({0, 1, 3, 2})).latency == Nanoseconds{10});
  CHECK(ring_link(cluster, devices({0, 1, 2, 3})).latency == Nanoseconds{99});
  CHECK(ring_link(cluster, devices({0})) == Link{});
}

TEST_CASE("all_reduce_time: 2(n-1)/n bytes over the bandwidth and 2(n-1) latencies, rounded up") {
  const Link link{byte_per_ns, Nanoseconds{7}};
  CHECK(all_reduce_time(link, 1, Bytes{1000}) == Nanoseconds{0});
  CHECK(all_reduce_time(link, 2, Bytes{1000}) == Nanoseconds{2 * 1000 / 2 + 2 * 7});
  CHECK(all_reduce_time(link, 4, Bytes{1000}) == Nanoseconds{2 * 3 * 1000 / 4 + 2 * 3 * 7});
  CHECK(all_reduce_time(link, 3, Bytes{1000}) == Nanoseconds{(2 * 2 * 1000 + 2) / 3 + 2 * 2 * 7});
  CHECK(all_reduce_time({{}, Nanoseconds{7}}, 3, Bytes{1000}) == Nanoseconds{2 * 2 * 7});
  CHECK(all_reduce_time({BytesPerSecond{1}, Nanoseconds{0}}, 2, largest_total_bytes) == largest_total_time);
}
