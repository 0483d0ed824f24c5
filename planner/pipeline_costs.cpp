#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "planner/cost.hpp"
#include "planner/memory.hpp"
#include "planner/placement.hpp"

namespace pipeplan {
namespace {

Result<void> check_layers(const Plan& plan, const Profile& profile) {
  const std::size_t shared = std::min(plan.layer_names.size(), profile.layers.size());
  for (const LayerId layer : ids<LayerId>(shared))
    if (plan.layer_names[layer] != profile.layers[layer].name)
      return bad_input("plan", fmt::format("layer {} is '{}', in the profile it is '{}'", layer.value,
                                           plan.layer_names[layer], profile.layers[layer].name));
  const LayerId beyond = id_of<LayerId>(shared);
  if (shared < profile.layers.size())
    return bad_input("plan", fmt::format("no stage has layer {} of the profile, '{}'", beyond.value,
                                         profile.layers[beyond].name));
  if (shared < plan.layer_names.size())
    return bad_input("plan", fmt::format("layer {}, '{}', is not in the profile, which has {} layers",
                                         beyond.value, plan.layer_names[beyond], shared));
  return {};
}

Result<void> check_devices(const Plan& plan, const Cluster& cluster) {
  for (const StageId stage : ids<StageId>(plan.stages.size()))
    for (const DeviceId device : plan.stages[stage].devices)
      if (device.value >= cluster.device_count())
        return bad_input(
            "plan", fmt::format("stage {} runs on device {}, but cluster '{}' has {} devices", stage.value,
                                device.value, cluster.name, cluster.device_count()));
  return {};
}

// A document's plan is checked when it is read; one made in memory could be anything.
Result<void> check_replicas(const Plan& plan) {
  for (const StageId stage : ids<StageId>(plan.stages.size())) {
    const StagePlan& part = plan.stages[stage];
    if (part.replicas < 1 || plan.micro_batch_size % part.replicas != 0)
      return bad_input("plan", fmt::format("stage {} has {} replicas, wanted a divisor of the micro-batch "
                                           "size, which is {}",
                                           stage.value, part.replicas, plan.micro_batch_size));
    const auto devices = static_cast<std::int64_t>(part.devices.size());
    if (devices != part.replicas * plan.data_parallel)
      return bad_input("plan", fmt::format("stage {} has {} devices, wanted {} replicas times {} copies",
                                           stage.value, devices, part.replicas, plan.data_parallel));
  }
  return {};
}

Result<void> check_recomputed(const Plan& plan, const Profile& profile) {
  for (const StageId stage : ids<StageId>(plan.stages.size()))
    for (const LayerId layer : plan.stages[stage].recompute)
      if (!profile.layers[layer].recomputable)
        return bad_input("plan", fmt::format("stage {} recomputes layer '{}', which the profile says cannot "
                                             "be recomputed",
                                             stage.value, profile.layers[layer].name));
  return {};
}

// A slow device stretches times that were within the limit.
Result<void> check_times(const PipelineCosts& costs, std::int64_t micro_batch_count) {
  constexpr std::int64_t limit = largest_total_time.count();
  std::int64_t total = 0;
  for (const StageTimes& times : costs.times) {
    total += std::min(times.per_micro_batch().count(), limit - total);
    if (total == limit || !checked_product(total, micro_batch_count, limit))
      return bad_input("cluster",
                       fmt::format("at its devices' speeds {} micro-batches take more than {} ns in all",
                                   micro_batch_count, limit));
  }
  return {};
}

// The costs of all layers at the micro-batch sizes that the plan's devices see: a replica has its share.
using ShardTables = std::map<std::int64_t, CostTable>;

std::int64_t shard_size(const Plan& plan, const StagePlan& stage) {
  return plan.micro_batch_size / stage.replicas;
}

Result<ShardTables> shard_tables(const Plan& plan, const Profile& profile, Extrapolation extrapolation) {
  std::vector<bool> recomputed(profile.layers.size());
  for (const StagePlan& stage : plan.stages)
    for (const LayerId layer : stage.recompute) recomputed[layer.index()] = true;
  ShardTables tables;
  for (const StagePlan& stage : plan.stages) {
    const std::int64_t size = shard_size(plan, stage);
    if (tables.contains(size)) continue;
    PIPEPLAN_TRY(table, make_cost_table(profile, size, plan.micro_batch_count, extrapolation, recomputed));
    tables.emplace(size, std::move(table));
  }
  return tables;
}

// Prices the stages of one plan and the boundaries between them.
class StagePrices {
 public:
  StagePrices(const Plan& plan, const Cluster& cluster, ShardTables tables)
      : plan_(plan), cluster_(cluster), tables_(std::move(tables)) {}

  [[nodiscard]] StageTimes times(const StagePlan& stage) const {
    const CostTable& table = table_of(stage);
    const auto [first, end] = window(stage);
    StageTimes times = table.stage_times(first, end, common_device(cluster_, stage.devices).speed_factor);
    if (plan_.transfers != TransferMode::ignored)
      times.all_reduce =
          all_reduce_time(ring_link(cluster_, stage.devices), static_cast<std::int64_t>(stage.devices.size()),
                          Bytes{between(table.parameter, first, end)});
    return times;
  }

  // Without receive buffers.
  [[nodiscard]] StageMemory memory(const StagePlan& stage) const {
    const auto [first, end] = window(stage);
    return window_memory(table_of(stage), first, end, plan_.state, common_device(cluster_, stage.devices));
  }

  [[nodiscard]] BoundaryCosts boundary(StageId sender) const {
    const StagePlan& from = plan_.stages[sender];
    const StagePlan& to = plan_.stages[sender.next()];
    const auto crossing = [&](const StagePlan& side) {
      return Bytes{table_of(side).cut_bytes[to.first.index()]};
    };
    return {.bytes = crossing(from.replicas < to.replicas ? from : to),
            .link = boundary_link(cluster_, from, to),
            .receive_buffers = buffers(sender),
            .activation_buffer = crossing(to),
            .gradient_buffer = crossing(from)};
  }

 private:
  struct Window {
    std::int64_t first, end;
  };
  static Window window(const StagePlan& stage) { return {stage.first.value, stage.last.value + 1}; }

  static std::int64_t between(const std::vector<std::int64_t>& sums, std::int64_t first, std::int64_t end) {
    return sums[static_cast<std::size_t>(end)] - sums[static_cast<std::size_t>(first)];
  }

  [[nodiscard]] const CostTable& table_of(const StagePlan& stage) const {
    return tables_.at(shard_size(plan_, stage));
  }

  [[nodiscard]] std::int64_t buffers(StageId sender) const {
    if (plan_.virtual_stages() > 1) return 1;
    return receive_buffers(plan_.schedule, plan_.stage_count(), plan_.micro_batch_count, sender.value);
  }

  const Plan& plan_;
  const Cluster& cluster_;
  ShardTables tables_;
};

void add_receive_buffers(PipelineCosts& costs) {
  for (const StageId stage : ids<StageId>(costs.boundaries.size())) {
    const BoundaryCosts& boundary = costs.boundaries[stage.index()];
    costs.memory[stage].constant[MemoryItem::communication] +=
        boundary.gradient_buffer * boundary.receive_buffers;
    costs.memory[stage.next()].constant[MemoryItem::communication] +=
        boundary.activation_buffer * boundary.receive_buffers;
  }
}

}  // namespace

Result<PipelineCosts> pipeline_costs(const Plan& plan, const Profile& profile, const Cluster& cluster,
                                     Extrapolation extrapolation) {
  PIPEPLAN_CHECK(check_layers(plan, profile));
  PIPEPLAN_CHECK(check_replicas(plan));
  PIPEPLAN_CHECK(check_devices(plan, cluster));
  PIPEPLAN_CHECK(check_recomputed(plan, profile));
  PIPEPLAN_TRY(tables, shard_tables(plan, profile, extrapolation));
  const StagePrices prices(plan, cluster, std::move(tables));
  PipelineCosts costs;
  costs.transfers = plan.transfers;
  costs.recompute_mode = plan.recompute_mode;
  for (const StageId stage : ids<StageId>(plan.stages.size())) {
    costs.times.push_back(prices.times(plan.stages[stage]));
    costs.memory.push_back(prices.memory(plan.stages[stage]));
    if (stage.next() != plan.stages.end_id()) costs.boundaries.push_back(prices.boundary(stage));
  }
  add_receive_buffers(costs);
  PIPEPLAN_CHECK(check_times(costs, plan.micro_batch_count));
  return costs;
}

Nanoseconds slowest_stage(const PipelineCosts& costs) {
  Nanoseconds slowest{};
  for (const StageTimes& times : costs.times) slowest = std::max(slowest, times.per_micro_batch());
  if (costs.transfers != TransferMode::overlapped) return slowest;
  for (const BoundaryCosts& boundary : costs.boundaries)
    slowest = std::max(slowest, link_busy_time(boundary.link, boundary.bytes));
  return slowest;
}

}  // namespace pipeplan
