#include "tests/planner/instances.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "models/base/assert.hpp"
#include "planner/even_split.hpp"

namespace pipeplan::test {
namespace {

constexpr std::int64_t second = 1'000'000'000;

LayerCost layer_cost(const LayerNumbers& numbers) {
  LayerCost cost;
  cost.forward = Nanoseconds{numbers.forward};
  cost.backward_input = Nanoseconds{numbers.backward / 2};
  cost.backward_weight = Nanoseconds{numbers.backward - numbers.backward / 2};
  cost.activation = Bytes{numbers.activation};
  cost.workspace = Bytes{numbers.workspace};
  cost.output = Bytes{numbers.output};
  return cost;
}

void add_skips(Random& random, Profile& profile) {
  const auto layers = static_cast<std::int64_t>(profile.layers.size());
  for (std::int64_t skips = random.between(0, 3); skips > 0 && layers > 2; --skips) {
    const std::int64_t from = random.between(0, layers - 3);
    Edge skip{LayerId{static_cast<std::int32_t>(from)},
              LayerId{static_cast<std::int32_t>(random.between(from + 2, layers - 1))}};
    if (random.coin()) skip.bytes = Bytes{random.between(0, 6)};
    const auto same = [&](const Edge& edge) { return edge.from == skip.from && edge.to == skip.to; };
    if (std::none_of(profile.edges.begin(), profile.edges.end(), same)) profile.edges.push_back(skip);
  }
  std::sort(profile.edges.begin(), profile.edges.end(),
            [](const Edge& a, const Edge& b) { return std::pair(a.from, a.to) < std::pair(b.from, b.to); });
}

DeviceType random_device(Random& random, std::int64_t memory_scale) {
  constexpr double speeds[] = {1.0, 1.0, 1.0, 0.7, 2.0, 1.5};
  DeviceType device;
  device.speed_factor = speeds[random.between(0, 5)];
  device.reserved = Bytes{random.between(0, 2)};
  if (memory_scale > 0 && random.between(0, 3) > 0)
    device.memory = Bytes{random.between(memory_scale / 2, memory_scale + memory_scale / 4)};
  return device;
}

StateRule random_rule(Random& random) {
  constexpr OptimizerRule rules[] = {OptimizerRule::none, OptimizerRule::sgd, OptimizerRule::momentum,
                                     OptimizerRule::adam};
  StateRule rule{rules[random.between(0, 3)], {}};
  if (random.between(0, 3) == 0) rule.total_factor = 1.5;
  return rule;
}

// Schedule, transfers, devices and links at random, memory limits near what an even split needs.
void vary(Random& random, Instance& instance) {
  SplitProblem& problem = instance.problem;
  constexpr ScheduleKind schedules[] = {ScheduleKind::naive, ScheduleKind::gpipe, ScheduleKind::one_f_one_b};
  constexpr TransferMode modes[] = {TransferMode::ignored, TransferMode::uncontended,
                                    TransferMode::overlapped};
  problem.schedule = schedules[random.between(0, 2)];
  problem.transfers = modes[random.between(0, 2)];
  problem.state = random_rule(random);
  const SplitScore sample =
      score_split(instance.asked(), even_bounds(instance.table.layer_count, problem.stages));
  const std::int64_t memory_scale = random.between(0, 2) > 0 ? sample.largest_memory + 1 : 0;
  const bool unequal = random.coin();
  const DeviceType common = random_device(random, memory_scale);
  for (DeviceType& device : problem.devices) device = unequal ? random_device(random, memory_scale) : common;
  for (Link& link : problem.links)
    if (random.coin()) link.bandwidth = BytesPerSecond{random.between(1, 8) * second / 4};
}

}  // namespace

Profile chain_profile(const std::vector<LayerNumbers>& layers) {
  Profile profile;
  profile.model = "chain";
  for (const LayerNumbers& numbers : layers) {
    ProfiledLayer layer;
    layer.name = fmt::format("l{}", profile.layers.size());
    layer.kind = "test";
    layer.parameter_bytes = Bytes{numbers.parameter};
    layer.costs = {layer_cost(numbers)};
    profile.layers.push_back(std::move(layer));
  }
  profile.edges = chain_edges(profile.layers.size());
  return profile;
}

Profile chain_of_times(const std::vector<std::int64_t>& forward_ns) {
  std::vector<LayerNumbers> layers;
  for (const std::int64_t time : forward_ns) layers.push_back({.forward = time});
  return chain_profile(layers);
}

Cluster cluster_of(const std::vector<DeviceType>& devices, const Link& link) {
  Cluster cluster{"test", {}, {NodeGroup{1, {}, link}}, {}, {}};
  for (const DeviceType& device : devices) {
    const std::string name = fmt::format("type{}", cluster.device_types.size());
    cluster.device_types[name] = device;
    cluster.nodes.front().devices.emplace_back(name, 1);
  }
  return cluster;
}

const SplitProblem& Instance::asked() {
  problem.table = &table;
  return problem;
}

Instance instance_of(const Profile& profile, std::int64_t stages, std::int64_t micro_batch_count,
                     const std::vector<bool>& recomputed) {
  auto table = make_cost_table(profile, 1, micro_batch_count, Extrapolation::refused, recomputed);
  PIPEPLAN_ASSERT(table.has_value());
  Instance instance{std::move(*table), {}};
  instance.problem.stages = stages;
  instance.problem.micro_batch_count = micro_batch_count;
  instance.problem.devices.resize(static_cast<std::size_t>(stages));
  instance.problem.links.resize(static_cast<std::size_t>(stages - 1));
  return instance;
}

Profile random_profile(Random& random, std::int64_t layers) {
  const std::int64_t most = random.coin() ? 4 : 12;
  std::vector<LayerNumbers> numbers;
  for (std::int64_t i = 0; i < layers; ++i)
    numbers.push_back({random.between(0, most), random.between(0, most), random.between(0, 5),
                       random.between(0, 5), random.between(0, 4), random.between(0, 3)});
  Profile profile = chain_profile(numbers);
  add_skips(random, profile);
  return profile;
}

Instance random_instance(Random& random) {
  const std::int64_t layers = random.between(1, 11);
  return random_instance(random, layers, random.between(1, std::min<std::int64_t>(layers, 5)));
}

Instance random_instance(Random& random, std::int64_t layers, std::int64_t stages) {
  Instance instance = instance_of(random_profile(random, layers), stages, random.between(1, 6));
  vary(random, instance);
  return instance;
}

Instance random_recomputing_instance(Random& random) {
  const std::int64_t layers = random.between(1, 11);
  return random_recomputing_instance(random, layers, random.between(1, std::min<std::int64_t>(layers, 5)));
}

Instance random_recomputing_instance(Random& random, std::int64_t layers, std::int64_t stages) {
  Profile profile = random_profile(random, layers);
  for (ProfiledLayer& layer : profile.layers)
    if (random.coin()) layer.costs.front().input = Bytes{random.between(0, 6)};
  const bool all = random.coin();
  std::vector<bool> recomputed;
  for (std::int64_t i = 0; i < layers; ++i) recomputed.push_back(all || random.coin());
  Instance instance = instance_of(profile, stages, random.between(1, 6), recomputed);
  vary(random, instance);
  return instance;
}

}  // namespace pipeplan::test
