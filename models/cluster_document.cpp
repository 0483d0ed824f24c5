// The document pipeplan.cluster/1: written and read here, field by field in the same order.

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "models/cluster.hpp"
#include "models/named_cluster.hpp"

namespace pipeplan {
namespace {

constexpr const char* cluster_schema = "pipeplan.cluster/1";
// Times are divided by it: far outside of this range they would be all zero or out of bounds.
constexpr double least_speed_factor = 1e-6, largest_speed_factor = 1e6;
constexpr double largest_flops = 1e30;

template<class Quantity>
Json value_or_null(const std::optional<Quantity>& quantity) {
  return quantity ? Json(quantity->value) : Json();
}

Json device_type_json(const DeviceType& type) {
  Json json = Json::object();
  json["memory_bytes"] = value_or_null(type.memory);
  json["reserved_bytes"] = type.reserved.value;
  json["speed_factor"] = type.speed_factor;
  json["peak_flops"] = Json::object();
  for (const auto& [format, flops] : type.peak_flops) json["peak_flops"][format] = flops;
  json["memory_bandwidth_bytes_per_s"] = value_or_null(type.memory_bandwidth);
  return json;
}

void put_link(Json& json, const Link& link) {
  json["bandwidth_bytes_per_s"] = value_or_null(link.bandwidth);
  json["latency_ns"] = link.latency.count();
}

Json link_json(const Link& link) {
  Json json = Json::object();
  put_link(json, link);
  return json;
}

Json node_group_json(const NodeGroup& group) {
  Json json = Json::object();
  json["count"] = group.count;
  json["devices"] = Json::array();
  for (const auto& [type, count] : group.devices) {
    Json entry = Json::object();
    entry["type"] = type;
    entry["count"] = count;
    json["devices"].push_back(std::move(entry));
  }
  json["link"] = link_json(group.link);
  return json;
}

Json override_json(const LinkOverride& pair) {
  Json json = Json::object();
  json["from"] = pair.from.value;
  json["to"] = pair.to.value;
  put_link(json, pair.link);
  return json;
}

std::optional<BytesPerSecond> read_bandwidth(ObjectReader& reader, const std::string& key) {
  const auto value = reader.optional_integer(key, 1);
  return value ? std::optional(BytesPerSecond{*value}) : std::nullopt;
}

Link read_link_fields(ObjectReader& reader) {
  Link link;
  link.bandwidth = read_bandwidth(reader, "bandwidth_bytes_per_s");
  link.latency = reader.optional_time("latency_ns").value_or(Nanoseconds{});
  return link;
}

Link read_link(ObjectReader reader) {
  const Link link = read_link_fields(reader);
  reader.done();
  return link;
}

std::map<std::string, double> read_peak_flops(ObjectReader& type) {
  std::map<std::string, double> peaks;
  if (type.raw("peak_flops").is_null()) return peaks;
  ObjectReader reader = type.object("peak_flops");
  for (const std::string& format : type.names("peak_flops"))
    if (format != "comment") peaks[format] = reader.number(format, 0, largest_flops);
  return peaks;
}

DeviceType read_device_type(ObjectReader reader) {
  DeviceType type;
  type.memory = reader.optional_bytes("memory_bytes");
  type.reserved = reader.optional_bytes("reserved_bytes").value_or(Bytes{});
  if (type.memory && type.reserved > *type.memory)
    reader.fail("reserved_bytes", fmt::format("is {}, wanted at most memory_bytes, {}", type.reserved.value,
                                              type.memory->value));
  type.speed_factor =
      reader.optional_number("speed_factor", least_speed_factor, largest_speed_factor).value_or(1.0);
  type.peak_flops = read_peak_flops(reader);
  type.memory_bandwidth = read_bandwidth(reader, "memory_bandwidth_bytes_per_s");
  reader.done();
  return type;
}

std::map<std::string, DeviceType> read_device_types(ObjectReader& document) {
  std::map<std::string, DeviceType> types;
  ObjectReader reader = document.object("device_types");
  for (const std::string& name : document.names("device_types")) {
    if (name == "comment") continue;
    if (name.empty()) reader.fail(name, "is an empty name, wanted at least one character");
    types[name] = read_device_type(reader.object(name));
  }
  return types;
}

std::string read_type_name(ObjectReader& reader, const std::map<std::string, DeviceType>& types) {
  std::string name = reader.text("type");
  if (types.contains(name)) return name;
  std::vector<std::string> known;
  for (const auto& entry : types) known.push_back(entry.first);
  const auto nearest = nearest_spelling(name, known);
  reader.fail("type", fmt::format("is '{}', which is not among device_types", name),
              nearest ? fmt::format("did you mean '{}'?", *nearest) : "");
  return name;
}

NodeGroup read_node_group(ObjectReader reader, const std::map<std::string, DeviceType>& types) {
  NodeGroup group;
  group.count = reader.integer("count", 1, largest_device_count);
  for (ObjectReader& entry : reader.objects("devices")) {
    std::string type = read_type_name(entry, types);
    group.devices.emplace_back(std::move(type), entry.integer("count", 1, largest_device_count));
    entry.done();
  }
  if (group.devices.empty()) reader.fail("devices", "is empty, wanted at least one device");
  group.link = read_link(reader.object("link"));
  reader.done();
  return group;
}

// Group by group, so that the sum stays small however many groups there are.
void check_device_count(ObjectReader& document, const Cluster& cluster) {
  if (cluster.nodes.empty()) document.fail("nodes", "is empty, wanted at least one node");
  std::int64_t count = 0;
  for (const NodeGroup& group : cluster.nodes) {
    std::int64_t per_node = 0;
    for (const auto& entry : group.devices)
      per_node = std::min(per_node + entry.second, largest_device_count + 1);
    count = std::min(count + group.count * per_node, largest_device_count + 1);
  }
  if (count > largest_device_count)
    document.fail(
        "nodes", fmt::format("have more than {} devices, the most a cluster can have", largest_device_count));
}

DeviceId read_device(ObjectReader& reader, const std::string& key, std::int64_t device_count) {
  const std::int64_t device = reader.integer(key, 0, largest_device_count - 1);
  if (device < device_count) return DeviceId{static_cast<std::int32_t>(device)};
  reader.fail(key, fmt::format("is {}, which is not in the cluster: its devices are 0 to {}", device,
                               device_count - 1));
  return {};
}

std::vector<LinkOverride> read_link_overrides(ObjectReader& document, std::int64_t device_count) {
  std::vector<LinkOverride> links;
  if (document.raw("links").is_null()) return links;
  std::set<std::pair<DeviceId, DeviceId>> seen;
  for (ObjectReader& reader : document.objects("links")) {
    LinkOverride pair;
    pair.from = read_device(reader, "from", device_count);
    pair.to = read_device(reader, "to", device_count);
    if (pair.from == pair.to)
      reader.fail("to", fmt::format("is {}, the device the link starts from", pair.to.value));
    if (!seen.insert(std::minmax(pair.from, pair.to)).second)
      reader.fail("to", fmt::format("is {}, and devices {} and {} have a link already", pair.to.value,
                                    pair.from.value, pair.to.value));
    pair.link = read_link_fields(reader);
    reader.done();
    links.push_back(pair);
  }
  return links;
}

}  // namespace

Json to_json(const Cluster& cluster) {
  Json json = Json::object();
  json["schema"] = cluster_schema;
  json["name"] = cluster.name;
  json["device_types"] = Json::object();
  for (const auto& [name, type] : cluster.device_types) json["device_types"][name] = device_type_json(type);
  json["nodes"] = Json::array();
  for (const NodeGroup& group : cluster.nodes) json["nodes"].push_back(node_group_json(group));
  json["network"] = link_json(cluster.network);
  json["links"] = Json::array();
  for (const LinkOverride& pair : cluster.links) json["links"].push_back(override_json(pair));
  return json;
}

Cluster read_cluster(ObjectReader object) {
  Cluster cluster;
  object.expect_schema(cluster_schema);
  cluster.name = object.text("name");
  cluster.device_types = read_device_types(object);
  for (const ObjectReader& reader : object.objects("nodes"))
    cluster.nodes.push_back(read_node_group(reader, cluster.device_types));
  check_device_count(object, cluster);
  cluster.network = read_link(object.object("network"));
  // After an error above there may be no devices to link.
  if (!object.source().failed()) cluster.links = read_link_overrides(object, cluster.device_count());
  object.raw("links");
  object.done();
  return cluster;
}

Result<Cluster> read_cluster_file(const std::string& path) {
  auto json = read_json_file(path);
  if (!json) {
    Error error = std::move(json).error();
    const auto nearest = error.code == ErrorCode::unavailable ? nearest_cluster_name(path) : std::nullopt;
    if (nearest) error.hint = fmt::format("did you mean the built-in cluster '{}'?", *nearest);
    return Failure(std::move(error));
  }
  JsonSource source(source_name(path));
  Cluster cluster = read_cluster(ObjectReader(source, *json, ""));
  return source.result(std::move(cluster));
}

}  // namespace pipeplan
