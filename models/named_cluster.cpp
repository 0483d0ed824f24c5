// The built-in machines: COUNTxTYPE for any count. Numbers are the makers' published peaks; what nobody
// publishes is an assumption and said to be one.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "models/cluster.hpp"
#include "models/named_cluster.hpp"

namespace pipeplan {
namespace {

constexpr std::int64_t gib = std::int64_t{1} << 30;
constexpr std::int64_t gb_per_s = 1'000'000'000;
// Driver, context and libraries: an assumption, what CUDA programs with cuBLAS and NCCL usually show.
constexpr std::int64_t reserved_bytes = 1 * gib;
// Latencies are assumptions too: usual times of a small message.
constexpr std::int64_t node_latency_ns = 3'000;
constexpr std::int64_t infiniband_latency_ns = 8'000;

struct KnownType {
  std::string_view name;
  std::int64_t memory_gib;
  std::int64_t memory_gb_per_s;
  std::string_view number_format;  // of the peak
  double peak_flops;               // dense
  std::int64_t devices_per_node;
  std::int64_t node_gb_per_s;       // per device and direction
  std::int64_t network_gbit_per_s;  // per device and direction
  std::int64_t network_latency_ns;
};

constexpr std::array<KnownType, 10> known_types{{
    // NVIDIA, Tesla P100 whitepaper (2016): HBM2, NVLink 4 x 20 GB/s each way; DGX-1: EDR InfiniBand, 100
    // Gb/s a port.
    {"p100-16gb", 16, 732, "fp16", 21.2e12, 8, 80, 100, infiniband_latency_ns},
    // NVIDIA, Tesla V100 whitepaper and datasheet (2017, 2018): NVLink 6 x 25 GB/s each way; DGX-1: EDR
    // InfiniBand.
    {"v100-16gb", 16, 900, "fp16", 125e12, 8, 150, 100, infiniband_latency_ns},
    {"v100-32gb", 32, 900, "fp16", 125e12, 8, 150, 100, infiniband_latency_ns},
    // NVIDIA, A100 datasheet (2021), SXM: NVLink 600 GB/s both ways together; DGX A100: HDR InfiniBand, 200
    // Gb/s a GPU.
    {"a100-40gb", 40, 1555, "bf16", 312e12, 8, 300, 200, infiniband_latency_ns},
    {"a100-80gb", 80, 2039, "bf16", 312e12, 8, 300, 200, infiniband_latency_ns},
    // NVIDIA, H100 datasheet (2023), SXM: NVLink 900 GB/s both ways together; DGX H100: NDR InfiniBand, 400
    // Gb/s a GPU.
    {"h100", 80, 3350, "bf16", 989e12, 8, 450, 400, infiniband_latency_ns},
    // NVIDIA, H200 datasheet (2024), SXM; DGX H200: as DGX H100.
    {"h200", 141, 4800, "bf16", 989e12, 8, 450, 400, infiniband_latency_ns},
    // AMD, Instinct MI300X datasheet (2023): Infinity Fabric 128 GB/s both ways together to each of 7
    // neighbours;
    // InfiniBand of 400 Gb/s a GPU, as in the usual eight-GPU platforms.
    {"mi300x", 192, 5300, "bf16", 1307.4e12, 8, 64, 400, infiniband_latency_ns},
    // Google Cloud, "TPU v3" and "TPU v4" (system architecture pages), per chip; hosts of four chips. The
    // links between
    // chips (ICI; one link each way: Jouppi et al., ISCA 2023, table 4) also join hosts: they are the network
    // as well.
    {"tpu-v3", 32, 900, "bf16", 123e12, 4, 70, 560, node_latency_ns},
    {"tpu-v4", 32, 1200, "bf16", 275e12, 4, 50, 400, node_latency_ns},
}};

struct CountAndType {
  std::int64_t count;
  std::string_view type;
};

std::optional<CountAndType> count_and_type(std::string_view name) {
  std::int64_t count = 0;
  const auto [end, status] = std::from_chars(name.data(), name.data() + name.size(), count);
  const auto digits = static_cast<std::size_t>(end - name.data());
  const bool plain = status == std::errc{} && name[0] != '0' && digits < name.size() && name[digits] == 'x';
  if (!plain || count < 1 || count > largest_device_count) return std::nullopt;
  return CountAndType{count, name.substr(digits + 1)};
}

DeviceType device_type(const KnownType& known) {
  DeviceType type;
  type.memory = Bytes{known.memory_gib * gib};
  type.reserved = Bytes{reserved_bytes};
  type.peak_flops[std::string(known.number_format)] = known.peak_flops;
  type.memory_bandwidth = BytesPerSecond{known.memory_gb_per_s * gb_per_s};
  return type;
}

// Full nodes, and one smaller node for the rest.
std::vector<NodeGroup> node_groups(const KnownType& known, std::int64_t count) {
  const Link link{BytesPerSecond{known.node_gb_per_s * gb_per_s}, Nanoseconds{node_latency_ns}};
  const std::int64_t full = count / known.devices_per_node, rest = count % known.devices_per_node;
  const std::string type(known.name);
  std::vector<NodeGroup> groups;
  if (full > 0) groups.push_back({full, {{type, known.devices_per_node}}, link});
  if (rest > 0) groups.push_back({1, {{type, rest}}, link});
  return groups;
}

}  // namespace

std::optional<Cluster> named_cluster(const std::string& name) {
  const auto wanted = count_and_type(name);
  if (!wanted) return std::nullopt;
  const auto known = std::find_if(known_types.begin(), known_types.end(),
                                  [&](const KnownType& type) { return type.name == wanted->type; });
  if (known == known_types.end()) return std::nullopt;
  Cluster cluster;
  cluster.name = name;
  cluster.device_types.emplace(known->name, device_type(*known));
  cluster.nodes = node_groups(*known, wanted->count);
  const std::int64_t network = known->network_gbit_per_s * gb_per_s / 8;
  cluster.network = {BytesPerSecond{network}, Nanoseconds{known->network_latency_ns}};
  return cluster;
}

std::vector<std::string> cluster_names() {
  std::vector<std::string> names;
  for (const KnownType& type : known_types)
    for (const std::int64_t nodes : {1, 4})
      names.push_back(fmt::format("{}x{}", nodes * type.devices_per_node, type.name));
  return names;
}

std::optional<std::string> nearest_cluster_name(const std::string& text) {
  const auto wanted = count_and_type(text);
  if (!wanted) return nearest_spelling(text, cluster_names());
  std::vector<std::string> types;
  for (const KnownType& type : known_types) types.emplace_back(type.name);
  const auto type = nearest_spelling(wanted->type, types);
  if (!type) return std::nullopt;
  return fmt::format("{}x{}", wanted->count, *type);
}

}  // namespace pipeplan
