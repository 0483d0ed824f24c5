#include <fmt/format.h>

#include <algorithm>

#include "planner/cost.hpp"
#include "planner/memory.hpp"

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
    if (plan.stages[stage].device.value >= cluster.device_count())
      return bad_input("plan",
                       fmt::format("stage {} runs on device {}, but cluster '{}' has {} devices", stage.value,
                                   plan.stages[stage].device.value, cluster.name, cluster.device_count()));
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

BoundaryCosts boundary_costs(const Plan& plan, const CostTable& table, const Cluster& cluster,
                             StageId sender) {
  const StagePlan& from = plan.stages[sender];
  const StagePlan& to = plan.stages[sender.next()];
  return {Bytes{table.cut_bytes[to.first.index()]}, cluster.link_between(from.device, to.device),
          receive_buffers(plan.schedule, plan.stage_count(), plan.micro_batch_count, sender.value)};
}

}  // namespace

Result<PipelineCosts> pipeline_costs(const Plan& plan, const Profile& profile, const Cluster& cluster,
                                     Extrapolation extrapolation) {
  PIPEPLAN_CHECK(check_layers(plan, profile));
  PIPEPLAN_CHECK(check_devices(plan, cluster));
  PIPEPLAN_TRY(table, make_cost_table(profile, plan.micro_batch_size, plan.micro_batch_count, extrapolation));
  PipelineCosts costs;
  costs.transfers = plan.transfers;
  for (const StageId stage : ids<StageId>(plan.stages.size())) {
    const StagePlan& part = plan.stages[stage];
    const DeviceType& device = cluster.type(part.device);
    costs.times.push_back(table.stage_times(part.first.value, part.last.value + 1, device.speed_factor));
    costs.memory.push_back(stage_memory(table, part.first.value, part.last.value + 1, stage.value,
                                        plan.stage_count(), plan.schedule, plan.micro_batch_count, plan.state,
                                        device));
    if (stage.next() != plan.stages.end_id())
      costs.boundaries.push_back(boundary_costs(plan, table, cluster, stage));
  }
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
