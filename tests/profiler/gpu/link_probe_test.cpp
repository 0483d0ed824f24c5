#include "profiler/gpu/link_probe.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "models/zoo/zoo.hpp"
#include "tests/support/host_gpu.hpp"
#include "tests/support/random.hpp"

namespace pipeplan {
namespace {

using test::HostGpu;
using test::HostGpuOptions;

ModelGraph small_mlp() {
  return build_model(MlpSpec{.inputs = 6, .width = 20, .layers = 1, .outputs = 4}).value();
}

// A queue copies 10 GB/s: a hog's copy outlasts a small network.
HostGpuOptions linked(std::int64_t device_count) {
  HostGpuOptions options;
  options.device_count = device_count;
  options.memory_bandwidth = BytesPerSecond{10'000'000'000};
  options.send_latency = std::chrono::microseconds(2);
  options.send_bandwidth = BytesPerSecond{100'000'000'000};
  return options;
}

ProbeOptions small_probe(std::int64_t count, std::optional<std::int64_t> partition_sms) {
  return {.count = count,
          .partition_sms = partition_sms,
          .sizes = {Bytes{4 << 10}, Bytes{64 << 10}, Bytes{1 << 20}}};
}

// bytes / (100 GB/s) is bytes / 100 ns: a relative rounding of at most 1 ns of 41.
void check_link(const Link& link) {
  CHECK(link.latency.count() == doctest::Approx(2000).epsilon(0.001));
  REQUIRE(link.bandwidth.has_value());
  CHECK(static_cast<double>(link.bandwidth->value) == doctest::Approx(100e9).epsilon(0.001));
}

}  // namespace

TEST_CASE("link probe: samples on a line give the line") {
  test::Random random(7);
  for (int i = 0; i < 100; ++i) {
    const std::int64_t latency = random.between(0, 10'000), per_mib = random.between(100, 1'000'000);
    INFO("seed 7, case ", i);
    std::vector<TransferSample> samples;
    for (const std::int64_t mib : {1, 4, 64})
      samples.push_back({Bytes{mib << 20}, Nanoseconds{latency + per_mib * mib}});
    const Link link = fit_link(samples);
    CHECK(link.latency.count() == doctest::Approx(static_cast<double>(latency)).epsilon(1e-6).scale(1));
    REQUIRE(link.bandwidth.has_value());
    CHECK(static_cast<double>(link.bandwidth->value) ==
          doctest::Approx(1e9 * (1 << 20) / static_cast<double>(per_mib)));
    CHECK(misfit_fraction(link, samples) < 0.01);
  }
}

TEST_CASE("link probe: latency is never negative, and times that do not grow give infinite bandwidth") {
  // The line through both would start at 2 * 100 - 300 = -100 ns.
  const std::vector<TransferSample> steep{{Bytes{1000}, Nanoseconds{100}}, {Bytes{2000}, Nanoseconds{300}}};
  const Link proportional = fit_link(steep);
  CHECK(proportional.latency == Nanoseconds{0});
  // v = 1000/100 and 2000/300; slope = (v1 + v2) / (v1^2 + v2^2).
  const double v1 = 10, v2 = 20.0 / 3;
  CHECK(static_cast<double>(proportional.bandwidth->value) ==
        doctest::Approx(1e9 * (v1 * v1 + v2 * v2) / (v1 + v2)));

  const std::vector<TransferSample> flat{{Bytes{1000}, Nanoseconds{500}}, {Bytes{2000}, Nanoseconds{500}}};
  CHECK(fit_link(flat) == Link{.bandwidth = std::nullopt, .latency = Nanoseconds{500}});
  const std::vector<TransferSample> falling{{Bytes{1000}, Nanoseconds{500}}, {Bytes{2000}, Nanoseconds{400}}};
  CHECK_FALSE(fit_link(falling).bandwidth.has_value());
}

TEST_CASE("link probe: parts of one GPU show the links latency and bandwidth, and become a cluster") {
  HostGpu gpu(linked(1));
  const auto probe = probe_links(small_mlp(), small_probe(3, 32), gpu);
  REQUIRE(probe.has_value());
  REQUIRE(probe->links.size() == 3);
  for (const ProbedLink& link : probe->links) check_link(link.link);
  CHECK(gpu.misuses() == std::vector<std::string>{});

  const Cluster cluster = probed_cluster(*probe);
  CHECK(cluster.device_count() == 3);
  CHECK(cluster.type_name(DeviceId{0}) == "host-gpu-32sm");
  CHECK(cluster.type(DeviceId{2}).memory == Bytes{(1 << 30) / 3});
  CHECK(cluster.links.empty());
  check_link(cluster.link_between(DeviceId{0}, DeviceId{2}));
  JsonSource source("cluster.json");
  const Json document = to_json(cluster);
  CHECK(source.result(read_cluster(ObjectReader(source, document, ""))).value() == cluster);
}

TEST_CASE("link probe: the interference is how much longer layers take beside busy parts") {
  HostGpuOptions options = linked(1);
  options.busy_factor = 1.5;
  HostGpu gpu(options);
  const LinkProbe probe = probe_links(small_mlp(), small_probe(2, 64), gpu).value();
  REQUIRE(probe.interference.has_value());
  CHECK(probe.interference->factor == doctest::Approx(1.5));
  CHECK(probe.interference->worst_factor == doctest::Approx(1.5));
  CHECK(probe.interference->worst_layer == small_mlp().layers().front().name);
  CHECK(probe_text(probe).find("1.50 times as long") != std::string::npos);
  CHECK(gpu.misuses() == std::vector<std::string>{});
}

TEST_CASE("link probe: whole GPUs have a link each, and no more are probed than there are") {
  HostGpu gpu(linked(3));
  const LinkProbe probe = probe_links(small_mlp(), small_probe(3, std::nullopt), gpu).value();
  const Cluster cluster = probed_cluster(probe);
  CHECK(cluster.links.size() == 3);
  CHECK(cluster.type_name(DeviceId{1}) == "host-gpu");
  CHECK(cluster.type(DeviceId{1}).memory == Bytes{1 << 30});

  const auto refused = probe_links(small_mlp(), small_probe(4, std::nullopt), gpu);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message == "GPU 3 is to be probed, there are 3");
}

}  // namespace pipeplan
