#include "planner/placement.hpp"

#include <algorithm>

#include "models/base/assert.hpp"

namespace pipeplan {
namespace {

__extension__ using Wide = __int128;

// As slow as the slower of the two in each respect.
Link slower(const Link& a, const Link& b) {
  Link link = a;
  if (b.bandwidth) link.bandwidth = std::min(a.bandwidth.value_or(*b.bandwidth), *b.bandwidth);
  link.latency = std::max(a.latency, b.latency);
  return link;
}

bool has_less_room(const DeviceType& a, const DeviceType& b) {
  if (!a.memory) return false;
  return !b.memory || *a.memory - a.reserved < *b.memory - b.reserved;
}

}  // namespace

DeviceType common_device(const Cluster& cluster, const std::vector<DeviceId>& devices) {
  PIPEPLAN_ASSERT(!devices.empty());
  DeviceType common = cluster.type(devices.front());
  double slowest = common.speed_factor;
  for (const DeviceId device : devices) {
    const DeviceType& type = cluster.type(device);
    slowest = std::min(slowest, type.speed_factor);
    if (has_less_room(type, common)) common = type;
  }
  common.speed_factor = slowest;
  return common;
}

Link boundary_link(const Cluster& cluster, const StagePlan& from, const StagePlan& to) {
  if (from.rank == to.rank) return {};
  const auto senders = static_cast<std::size_t>(from.replicas);
  const auto receivers = static_cast<std::size_t>(to.replicas);
  Link link;
  for (std::size_t copy = 0; copy * senders < from.devices.size(); ++copy)
    for (std::size_t i = 0; i < senders; ++i)
      // Sender i of r has the shares i/r to (i+1)/r, receiver j of q those from j/q to (j+1)/q.
      for (std::size_t j = i * receivers / senders; j * senders < (i + 1) * receivers; ++j)
        link = slower(
            link, cluster.link_between(from.devices[copy * senders + i], to.devices[copy * receivers + j]));
  return link;
}

Link ring_link(const Cluster& cluster, const std::vector<DeviceId>& devices) {
  Link link;
  for (std::size_t i = 0; i < devices.size(); ++i)
    link = slower(link, cluster.link_between(devices[i], devices[(i + 1) % devices.size()]));
  return link;
}

Nanoseconds all_reduce_time(const Link& link, std::int64_t device_count, Bytes bytes) {
  const Wide rounds = 2 * (Wide{device_count} - 1);
  Wide time = rounds * link.latency.count();
  if (link.bandwidth) {
    const Wide divisor = Wide{device_count} * link.bandwidth->value;
    time += (rounds * bytes.value * std::nano::den + divisor - 1) / divisor;
  }
  return Nanoseconds{static_cast<std::int64_t>(std::min<Wide>(time, largest_total_time.count()))};
}

}  // namespace pipeplan
