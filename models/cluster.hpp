#pragma once

// The machine: device types, nodes of devices, and the links between devices. Devices are numbered node by
// node in the order of the document; pipeline stages take them in that order.

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/base/id.hpp"
#include "models/base/json_reader.hpp"
#include "models/base/units.hpp"

namespace pipeplan {

struct DeviceType {
  std::optional<Bytes> memory;  // absent: unlimited
  Bytes reserved;               // taken by driver, context, libraries
  double speed_factor = 1.0;  // how much faster than the profiled device; times are divided by it, rounded up
  std::map<std::string, double> peak_flops;  // by number format
  std::optional<BytesPerSecond> memory_bandwidth;
  friend bool operator==(const DeviceType&, const DeviceType&) = default;
};

// Full duplex: each direction has the whole bandwidth. Absent bandwidth: infinite.
struct Link {
  std::optional<BytesPerSecond> bandwidth;
  Nanoseconds latency{};
  friend bool operator==(const Link&, const Link&) = default;
};

// How long a link is busy with `bytes` in one direction: bytes / bandwidth, rounded up; latency is not in it.
Nanoseconds link_busy_time(const Link& link, Bytes bytes);

struct NodeGroup {
  std::int64_t count = 1;                                     // equal nodes
  std::vector<std::pair<std::string, std::int64_t>> devices;  // type, count
  Link link;                                                  // between devices of one node
  friend bool operator==(const NodeGroup&, const NodeGroup&) = default;
};

struct LinkOverride {
  DeviceId from, to;  // both directions
  Link link;
  friend bool operator==(const LinkOverride&, const LinkOverride&) = default;
};

struct Cluster {
  std::string name;
  std::map<std::string, DeviceType> device_types;
  std::vector<NodeGroup> nodes;
  Link network;  // between devices of different nodes
  std::vector<LinkOverride> links;

  [[nodiscard]] std::int64_t device_count() const;
  [[nodiscard]] const std::string& type_name(DeviceId device) const;
  [[nodiscard]] const DeviceType& type(DeviceId device) const;
  [[nodiscard]] Link link_between(DeviceId a, DeviceId b) const;

  friend bool operator==(const Cluster&, const Cluster&) = default;
};

inline constexpr std::int64_t largest_device_count = 1 << 16;

// `count` equal devices with unlimited memory and free transfers: what a plan assumes where no cluster is
// given.
Cluster ideal_cluster(std::int64_t count);

// Built in: "4xv100-16gb", "8xh100", "64xtpu-v3" and so on: a device count and a device type, with the links
// such machines come with; empty where the name is unknown.
std::optional<Cluster> named_cluster(const std::string& name);
std::vector<std::string> cluster_names();

Json to_json(const Cluster& cluster);
// A whole cluster document below `object`.
Cluster read_cluster(ObjectReader object);
Result<Cluster> read_cluster_file(const std::string& path);

}  // namespace pipeplan
