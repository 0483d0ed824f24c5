#include "models/cluster.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "models/base/assert.hpp"

namespace pipeplan {
namespace {

std::int64_t devices_per_node(const NodeGroup& group) {
  std::int64_t count = 0;
  for (const auto& entry : group.devices) count += entry.second;
  return count;
}

// Where a device stands: its group of nodes, the node's number within the group, its own number within the
// node.
struct Place {
  std::size_t group = 0;
  std::int64_t node = 0;
  std::int64_t slot = 0;
};

Place place_of(const Cluster& cluster, DeviceId device) {
  std::int64_t rest = device.value;
  PIPEPLAN_ASSERT(rest >= 0);
  for (std::size_t i = 0; i < cluster.nodes.size(); ++i) {
    const std::int64_t per_node = devices_per_node(cluster.nodes[i]);
    if (rest < per_node * cluster.nodes[i].count) return {i, rest / per_node, rest % per_node};
    rest -= per_node * cluster.nodes[i].count;
  }
  PIPEPLAN_UNREACHABLE("a device that is not in the cluster");
}

}  // namespace

Nanoseconds link_busy_time(const Link& link, Bytes bytes) {
  return link.bandwidth ? transfer_time(bytes, *link.bandwidth) : Nanoseconds{0};
}

std::int64_t Cluster::device_count() const {
  std::int64_t count = 0;
  for (const NodeGroup& group : nodes) count += group.count * devices_per_node(group);
  return count;
}

const std::string& Cluster::type_name(DeviceId device) const {
  const Place place = place_of(*this, device);
  const auto& devices = nodes[place.group].devices;
  std::int64_t rest = place.slot;
  const auto entry = std::find_if(devices.begin(), devices.end(), [&](const auto& candidate) {
    const bool here = rest < candidate.second;
    rest -= candidate.second;
    return here;
  });
  PIPEPLAN_ASSERT(entry != devices.end());
  return entry->first;
}

const DeviceType& Cluster::type(DeviceId device) const {
  const auto found = device_types.find(type_name(device));
  PIPEPLAN_ASSERT(found != device_types.end());
  return found->second;
}

Link Cluster::link_between(DeviceId a, DeviceId b) const {
  if (a == b) return {};
  for (const LinkOverride& pair : links)
    if ((pair.from == a && pair.to == b) || (pair.from == b && pair.to == a)) return pair.link;
  const Place here = place_of(*this, a), there = place_of(*this, b);
  const bool same_node = here.group == there.group && here.node == there.node;
  return same_node ? nodes[here.group].link : network;
}

Cluster ideal_cluster(std::int64_t count) {
  PIPEPLAN_ASSERT(count >= 1);
  Cluster cluster;
  cluster.name = fmt::format("{} ideal device{}", count, count == 1 ? "" : "s");
  cluster.device_types["ideal"] = DeviceType{};
  cluster.nodes.push_back({1, {{"ideal", count}}, {}});
  return cluster;
}

}  // namespace pipeplan
