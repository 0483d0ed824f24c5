#include "profiler/gpu/link_probe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "profiler/gpu/gpu_profiler.hpp"
#include "profiler/statistics.hpp"

namespace pipeplan {
namespace {

constexpr int warm_up_count = 2, round_count = 9;
constexpr std::int64_t trips_per_round = 4;  // there and back
// The queue idles first, so that the host has enqueued all trips when the first begins.
constexpr Nanoseconds head_start = std::chrono::microseconds(500);

// Two parts that send a tensor to and fro, each on a copy queue of its own, as stages do.
class PingPong {
 public:
  static Result<std::unique_ptr<PingPong>> make(GpuQueue& a, GpuQueue& b, Bytes largest) {
    auto game = std::make_unique<PingPong>();
    PIPEPLAN_CHECK(game->join(game->sides_[0], a, largest));
    PIPEPLAN_CHECK(game->join(game->sides_[1], b, largest));
    PIPEPLAN_TRY(from, game->sides_[0].queue->make_event(EventUse::timing));
    PIPEPLAN_TRY(to, game->sides_[0].queue->make_event(EventUse::timing));
    game->from_ = std::move(from);
    game->to_ = std::move(to);
    return game;
  }

  Result<TransferSample> sample(Bytes bytes) {
    std::vector<Nanoseconds> times;
    for (int i = 0; i < warm_up_count + round_count; ++i) {
      PIPEPLAN_TRY(time, round(bytes));
      if (i >= warm_up_count) times.push_back(time);
    }
    return TransferSample{bytes, median(times)};
  }

 private:
  struct Side {
    std::unique_ptr<GpuQueue> queue;
    std::optional<Arena> arena;
    float* buffer = nullptr;
    std::unique_ptr<GpuEvent> sent;
  };

  static Result<void> join(Side& side, GpuQueue& part, Bytes largest) {
    PIPEPLAN_TRY(queue, part.make_sibling("link probe"));
    PIPEPLAN_TRY(arena, part.reserve(largest, "link probe"));
    PIPEPLAN_TRY(sent, queue->make_event(EventUse::ordering));
    side.queue = std::move(queue);
    side.arena.emplace(std::move(arena));
    side.buffer = reinterpret_cast<float*>(side.arena->allocate(largest, MemoryItem::communication));
    side.sent = std::move(sent);
    return {};
  }

  static void send(Side& from, Side& to, Bytes bytes) {
    const auto count = bytes.value / static_cast<std::int64_t>(sizeof(float));
    from.queue->send(from.buffer, *to.queue, to.buffer, count);
    from.queue->record(*from.sent);
    to.queue->wait(*from.sent);
  }

  // The time of one way.
  Result<Nanoseconds> round(Bytes bytes) {
    GpuQueue& clock = *sides_[0].queue;
    clock.idle(head_start);
    clock.record(*from_);
    for (std::int64_t i = 0; i < trips_per_round; ++i) {
      send(sides_[0], sides_[1], bytes);
      send(sides_[1], sides_[0], bytes);
    }
    clock.record(*to_);
    PIPEPLAN_CHECK(sides_[1].queue->synchronize());
    PIPEPLAN_CHECK(clock.synchronize());
    PIPEPLAN_TRY(time, clock.elapsed(*from_, *to_));
    return std::max(time / (2 * trips_per_round), Nanoseconds{1});
  }

  std::array<Side, 2> sides_;
  std::unique_ptr<GpuEvent> from_, to_;
};

std::vector<PartRequest> requests(const ProbeOptions& options) {
  std::vector<PartRequest> requests;
  for (std::int64_t i = 0; i < options.count; ++i)
    requests.push_back({.name = fmt::format("part {}", i),
                        .device = options.partition_sms ? options.gpu : options.gpu + i,
                        .sm_count = options.partition_sms});
  return requests;
}

Result<std::vector<GpuDevice>> find_devices(GpuBackend& backend, const ProbeOptions& options) {
  PIPEPLAN_TRY(all, backend.devices());
  std::vector<GpuDevice> devices;
  for (const PartRequest& request : requests(options)) {
    const auto device = std::ranges::find(all, request.device, &GpuDevice::index);
    if (device == all.end())
      return fail(ErrorCode::unavailable, {},
                  fmt::format("GPU {} is to be probed, there are {}", request.device, all.size()),
                  "give --partition to probe parts of one GPU");
    devices.push_back(*device);
  }
  return devices;
}

Result<ProbedLink> probe_link(GpuQueue& a, GpuQueue& b, std::span<const Bytes> sizes) {
  ProbedLink probed;
  PIPEPLAN_TRY(game, PingPong::make(a, b, *std::ranges::max_element(sizes)));
  for (const Bytes size : sizes) {
    PIPEPLAN_TRY(sample, game->sample(size));
    probed.samples.push_back(sample);
  }
  probed.link = fit_link(probed.samples);
  return probed;
}

bool on_one_device(const LinkProbe& probe) {
  return std::ranges::all_of(probe.parts,
                             [&](const GpuPart& part) { return part.device == probe.parts.front().device; });
}

std::vector<TransferSample> all_samples(const LinkProbe& probe) {
  std::vector<TransferSample> all;
  for (const ProbedLink& link : probe.links) all.insert(all.end(), link.samples.begin(), link.samples.end());
  return all;
}

// "nvidia-h200-32sm".
std::string type_name(const GpuPart& part) {
  std::string name;
  for (const char letter : part.device_name) {
    const bool upper = letter >= 'A' && letter <= 'Z';
    name += letter == ' ' ? '-' : upper ? static_cast<char>(letter - 'A' + 'a') : letter;
  }
  return part.kind == PartitionKind::device ? name : fmt::format("{}-{}sm", name, part.sm_count);
}

DeviceType device_type(const GpuDevice& device, std::int64_t parts_of_device) {
  DeviceType type;
  type.memory = Bytes{device.memory.value / parts_of_device};
  type.reserved = Bytes{(device.memory - device.free_memory).value / parts_of_device};
  return type;
}

// Neighbours of one type in a row.
std::vector<std::pair<std::string, std::int64_t>> device_rows(const LinkProbe& probe) {
  std::vector<std::pair<std::string, std::int64_t>> rows;
  for (const GpuPart& part : probe.parts) {
    if (rows.empty() || rows.back().first != type_name(part)) rows.emplace_back(type_name(part), 0);
    ++rows.back().second;
  }
  return rows;
}

std::string bandwidth_text(const Link& link) {
  return link.bandwidth ? display(*link.bandwidth) : std::string("unlimited bandwidth");
}

}  // namespace

// With u = 1 / time and v = bytes / time the sum of (latency u + slope v - 1)^2 is least where the normal
// equations hold.
Link fit_link(std::span<const TransferSample> samples) {
  double uu = 0, uv = 0, vv = 0, u_sum = 0, v_sum = 0;
  for (const TransferSample& sample : samples) {
    PIPEPLAN_ASSERT(sample.time > Nanoseconds::zero());
    const double u = 1 / static_cast<double>(sample.time.count());
    const double v = u * static_cast<double>(sample.bytes.value);
    uu += u * u, uv += u * v, vv += v * v, u_sum += u, v_sum += v;
  }
  const double determinant = uu * vv - uv * uv;
  PIPEPLAN_ASSERT(determinant > 0);
  double latency = (u_sum * vv - v_sum * uv) / determinant;
  double slope = (uu * v_sum - uv * u_sum) / determinant;  // ns per byte
  if (latency < 0) latency = 0, slope = v_sum / vv;
  if (slope <= 0) return {.bandwidth = std::nullopt, .latency = Nanoseconds{std::llround(u_sum / uu)}};
  return {.bandwidth = BytesPerSecond{std::max(std::llround(1e9 / slope), 1LL)},
          .latency = Nanoseconds{std::llround(latency)}};
}

double misfit_fraction(const Link& link, std::span<const TransferSample> samples) {
  double worst = 0;
  for (const TransferSample& sample : samples) {
    const auto fitted = static_cast<double>((link.latency + link_busy_time(link, sample.bytes)).count());
    worst = std::max(worst, std::abs(fitted / static_cast<double>(sample.time.count()) - 1));
  }
  return worst;
}

Result<LinkProbe> probe_links(const ModelGraph& model, const ProbeOptions& options, GpuBackend& backend) {
  PIPEPLAN_ASSERT(options.count >= 1 && options.sizes.size() >= 2);
  LinkProbe probe;
  PIPEPLAN_TRY(devices, find_devices(backend, options));
  probe.devices = devices;
  const PartitionKind kind = options.partition_sms ? PartitionKind::green : PartitionKind::device;
  PIPEPLAN_TRY(queues, backend.open(kind, requests(options)));
  for (const auto& queue : queues) probe.parts.push_back(queue->part());
  for (std::size_t from = 0; from < queues.size(); ++from)
    for (std::size_t to = from + 1; to < queues.size(); ++to) {
      PIPEPLAN_TRY(link, probe_link(*queues[from], *queues[to], options.sizes));
      link.from = from;
      link.to = to;
      probe.links.push_back(std::move(link));
    }
  if (queues.size() < 2) return probe;
  PIPEPLAN_TRY(interference, probe_interference(model, options.micro_batch_size, queues));
  probe.interference = interference;
  return probe;
}

Cluster probed_cluster(const LinkProbe& probe) {
  Cluster cluster;
  cluster.name = fmt::format("{} x {}, probed", probe.parts.size(), type_name(probe.parts.front()));
  const bool shared = on_one_device(probe);
  const auto sharers = shared ? static_cast<std::int64_t>(probe.parts.size()) : 1;
  for (std::size_t i = 0; i < probe.parts.size(); ++i)
    cluster.device_types.emplace(type_name(probe.parts[i]), device_type(probe.devices[i], sharers));
  const auto samples = all_samples(probe);
  const Link typical = samples.empty() ? Link{} : fit_link(samples);
  cluster.nodes = {{.count = 1, .devices = device_rows(probe), .link = typical}};
  cluster.network = typical;
  if (shared) return cluster;
  for (const ProbedLink& link : probe.links)
    cluster.links.push_back({id_of<DeviceId>(link.from), id_of<DeviceId>(link.to), link.link});
  return cluster;
}

std::string probe_text(const LinkProbe& probe) {
  std::string text;
  for (std::size_t i = 0; i < probe.parts.size(); ++i)
    text += fmt::format("part {}: GPU {} ({}), {}\n", i, probe.parts[i].device, probe.parts[i].device_name,
                        part_text(probe.parts[i]));
  for (const ProbedLink& link : probe.links)
    text += fmt::format("part {} to part {}: {}, latency {} (times differ by up to {:.0f} %)\n", link.from,
                        link.to, bandwidth_text(link.link), display(link.link.latency),
                        100 * misfit_fraction(link.link, link.samples));
  if (const auto& found = probe.interference)
    text += fmt::format(
        "while the other parts copy memory, layers take {:.2f} times as long, '{}' {:.2f} times\n",
        found->factor, found->worst_layer, found->worst_factor);
  return text;
}

}  // namespace pipeplan
