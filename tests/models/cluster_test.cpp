#include "models/cluster.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

namespace pipeplan {
namespace {

constexpr std::int64_t gb = 1'000'000'000;

Result<Cluster> reread(const Json& json) {
  JsonSource source("c.json");
  Cluster cluster = read_cluster(ObjectReader(source, json, ""));
  return source.result(std::move(cluster));
}

// Two nodes of two fast devices and one slow one, then a node of one slow device.
Cluster mixed_cluster() {
  Cluster cluster;
  cluster.name = "mixed";
  cluster.device_types["fast"] = {Bytes{16 * gb}, Bytes{gb}, 2.0, {{"bf16", 1e14}}, BytesPerSecond{900 * gb}};
  cluster.device_types["slow"] = DeviceType{};
  cluster.nodes.push_back({2, {{"fast", 2}, {"slow", 1}}, {BytesPerSecond{300 * gb}, Nanoseconds{3}}});
  cluster.nodes.push_back({1, {{"slow", 1}}, {BytesPerSecond{100 * gb}, Nanoseconds{5}}});
  cluster.network = {BytesPerSecond{10 * gb}, Nanoseconds{8}};
  cluster.links.push_back({DeviceId{0}, DeviceId{4}, {std::nullopt, Nanoseconds{1}}});
  return cluster;
}

Error refused(const std::function<void(Json&)>& change) {
  Json json = to_json(mixed_cluster());
  change(json);
  const auto cluster = reread(json);
  REQUIRE_FALSE(cluster.has_value());
  return cluster.error();
}

}  // namespace

TEST_CASE("cluster: devices are numbered node by node, in the order of the document") {
  const Cluster cluster = mixed_cluster();
  CHECK(cluster.device_count() == 2 * (2 + 1) + 1);
  std::string types;
  for (const DeviceId device : ids<DeviceId>(7)) types += cluster.type_name(device) + " ";
  CHECK(types == "fast fast slow fast fast slow slow ");
  CHECK(cluster.type(DeviceId{3}).speed_factor == 2.0);
}

TEST_CASE("cluster: a link is the override, else of the node, else of the network, whichever way round") {
  const Cluster cluster = mixed_cluster();
  const auto latency = [&](std::int32_t a, std::int32_t b) {
    CHECK(cluster.link_between(DeviceId{a}, DeviceId{b}) == cluster.link_between(DeviceId{b}, DeviceId{a}));
    return cluster.link_between(DeviceId{a}, DeviceId{b}).latency.count();
  };
  CHECK(latency(0, 2) == 3);
  CHECK(latency(3, 5) == 3);
  CHECK(latency(2, 3) == 8);
  CHECK(latency(5, 6) == 8);
  CHECK(latency(0, 4) == 1);
  CHECK(latency(1, 4) == 8);
  CHECK(cluster.link_between(DeviceId{3}, DeviceId{3}) == Link{});
}

TEST_CASE("cluster: a link is busy for bytes over bandwidth, rounded up, and an infinite one never") {
  CHECK(link_busy_time({BytesPerSecond{3 * gb}, Nanoseconds{99}}, Bytes{10}).count() == 4);
  CHECK(link_busy_time({std::nullopt, Nanoseconds{99}}, Bytes{10}).count() == 0);
}

TEST_CASE("cluster: ideal devices have no limits and free links") {
  const Cluster cluster = ideal_cluster(3);
  CHECK(cluster.device_count() == 3);
  CHECK(cluster.type(DeviceId{2}) == DeviceType{});
  CHECK(cluster.link_between(DeviceId{0}, DeviceId{2}) == Link{});
  CHECK(reread(to_json(cluster)).value() == cluster);
}

TEST_CASE("named_cluster: full nodes, and one smaller node for the rest") {
  const auto shape = [](const std::string& name) {
    std::string text;
    const Cluster cluster = named_cluster(name).value();
    for (const NodeGroup& group : cluster.nodes)
      text += std::to_string(group.count) + "x" + std::to_string(group.devices.front().second) + " ";
    return text;
  };
  CHECK(shape("4xv100-16gb") == "1x4 ");
  CHECK(shape("64xtpu-v3") == "16x4 ");
  CHECK(shape("8xh100") == "1x8 ");
  CHECK(shape("19xa100-80gb") == "2x8 1x3 ");
  CHECK(shape("65536xh200") == "8192x8 ");
  CHECK(named_cluster("512xtpu-v3")->device_count() == 512);
}

TEST_CASE("named_cluster: published numbers") {
  const Cluster v100 = named_cluster("16xv100-16gb").value();
  CHECK(v100.type(DeviceId{0}).memory == Bytes{16 * (std::int64_t{1} << 30)});
  CHECK(v100.link_between(DeviceId{0}, DeviceId{7}).bandwidth == BytesPerSecond{6 * 25 * gb});
  CHECK(v100.link_between(DeviceId{7}, DeviceId{8}).bandwidth == BytesPerSecond{100 * gb / 8});
}

TEST_CASE("named_cluster: other names are none of ours") {
  for (const char* name : {"", "x", "8", "8x", "xh100", "0xh100", "-1xh100", "08xh100", "65537xh100",
                           "8xh1000", "8 xh100", "8xH100", "8xh100 ", "99999999999999999999xh100", "8h100"}) {
    INFO(name);
    CHECK_FALSE(named_cluster(name).has_value());
  }
}

TEST_CASE("cluster: every built-in name gives a cluster that its document gives back") {
  CHECK(cluster_names().size() >= 9);
  for (const std::string& name : cluster_names()) {
    const auto cluster = named_cluster(name);
    INFO(name);
    REQUIRE(cluster.has_value());
    CHECK(cluster->name == name);
    CHECK(reread(to_json(*cluster)).value() == *cluster);
  }
}

TEST_CASE("cluster: writing then reading gives an equal value, nulls for what has no limit") {
  const Cluster cluster = mixed_cluster();
  const Json json = to_json(cluster);
  CHECK(json["device_types"]["slow"]["memory_bytes"].is_null());
  CHECK(json["links"][0]["bandwidth_bytes_per_s"].is_null());
  CHECK(reread(json).value() == cluster);
  CHECK(to_json(reread(json).value()).dump() == json.dump());
}

TEST_CASE("cluster: what may be left out is unlimited, free or none") {
  const auto json = parse_json(
      R"({"schema": "pipeplan.cluster/1", "name": "bare", "comment": "c", "device_types": {"comment": "c", "d": {}},
          "nodes": [{"count": 1, "devices": [{"type": "d", "count": 2}], "link": {"comment": "c"}}], "network": {}})",
      "c.json");
  const Cluster cluster = reread(*json).value();
  CHECK(cluster.device_types.size() == 1);
  CHECK(cluster.type(DeviceId{0}) == DeviceType{});
  CHECK(cluster.link_between(DeviceId{0}, DeviceId{1}) == Link{});
}

TEST_CASE("cluster: no device, too many devices and unknown types are refused with their place") {
  CHECK(refused([](Json& json) { json["nodes"] = Json::array(); }).where == "c.json#/nodes");
  CHECK(refused([](Json& json) { json["nodes"][0]["devices"] = Json::array(); }).where ==
        "c.json#/nodes/0/devices");
  CHECK(refused([](Json& json) { json["nodes"][0]["count"] = 0; }).where == "c.json#/nodes/0/count");
  CHECK(refused([](Json& json) { json["nodes"][0]["count"] = 65536; }).message.find("65536") !=
        std::string::npos);
  const Error unknown = refused([](Json& json) { json["nodes"][0]["devices"][1]["type"] = "slaw"; });
  CHECK(unknown.where == "c.json#/nodes/0/devices/1/type");
  CHECK(unknown.hint == "did you mean 'slow'?");
}

TEST_CASE("cluster: speed, bandwidth and memory outside of their range are refused") {
  const std::string fast = "c.json#/device_types/fast/";
  for (const double factor : {0.0, -1.0, 2e6, 1e-9})
    CHECK(refused([&](Json& json) { json["device_types"]["fast"]["speed_factor"] = factor; }).where ==
          fast + "speed_factor");
  CHECK(refused([](Json& json) { json["device_types"]["fast"]["reserved_bytes"] = 17 * gb; }).where ==
        fast + "reserved_bytes");
  CHECK(refused([](Json& json) { json["device_types"]["fast"]["memory_bytes"] = -1; }).where ==
        fast + "memory_bytes");
  CHECK(refused([](Json& json) { json["network"]["bandwidth_bytes_per_s"] = 0; }).where ==
        "c.json#/network/bandwidth_bytes_per_s");
  CHECK(refused([](Json& json) { json["nodes"][1]["link"]["latency_ns"] = -1; }).where ==
        "c.json#/nodes/1/link/latency_ns");
}

TEST_CASE("cluster: links join two different devices that exist, each pair once") {
  CHECK(refused([](Json& json) { json["links"][0]["to"] = 7; }).where == "c.json#/links/0/to");
  CHECK(refused([](Json& json) { json["links"][0]["to"] = 0; }).where == "c.json#/links/0/to");
  const Error twice = refused([](Json& json) {
    Json again = json["links"][0];
    std::swap(again["from"], again["to"]);
    json["links"].push_back(again);
  });
  CHECK(twice.where == "c.json#/links/1/to");
}

TEST_CASE("read_cluster_file: a missing file hints at the nearest built-in cluster") {
  const auto missing = read_cluster_file("4xv100-16g");
  REQUIRE_FALSE(missing.has_value());
  CHECK(missing.error().code == ErrorCode::unavailable);
  CHECK(missing.error().hint == "did you mean the built-in cluster '4xv100-16gb'?");
  CHECK(read_cluster_file("no/such/cluster.json").error().hint.empty());
}

TEST_CASE("read_cluster_file: reads what write_text_file wrote") {
  const auto path =
      std::filesystem::temp_directory_path() / ("pipeplan_cluster" + std::to_string(::getpid()));
  const Cluster cluster = mixed_cluster();
  REQUIRE(write_text_file(path.string(), document_text(to_json(cluster))).has_value());
  CHECK(read_cluster_file(path.string()).value() == cluster);
  std::filesystem::remove(path);
}

}  // namespace pipeplan
