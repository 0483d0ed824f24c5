#include "executor/gpu/worker_spec.hpp"

#include <fmt/format.h>

#include "executor/command_time.hpp"

namespace pipeplan {
namespace {

std::vector<bool> recomputed_layers(const StagePlan& planned) {
  std::vector<bool> recomputed(static_cast<std::size_t>(planned.last.value - planned.first.value + 1));
  for (const LayerId layer : planned.recompute)
    recomputed.at(static_cast<std::size_t>(layer.value - planned.first.value)) = true;
  return recomputed;
}

GpuStageSpec stage_spec(const Program& program, StageId stage, const OrderDemand& demand,
                        const GpuRequest& request) {
  const StagePlan& planned = request.plan.stages[stage];
  const std::size_t s = stage.index();
  const bool last = s + 1 == request.plan.stages.size();
  return {.stage = stage,
          .first_layer = planned.first.value,
          .layer_count = planned.last.value - planned.first.value + 1,
          .recomputed = recomputed_layers(planned),
          .peak_in_flight = demand.stage_peak[stage],
          .split_in_flight = demand.stage_split_peak[stage],
          .activation_slots = s > 0 ? demand.forward_lead.at(s - 1) : 0,
          .gradient_slots = last ? 0 : demand.backward_lead.at(s),
          .peers = program.peers[stage],
          .all_reduce =
              request.options.emulate_links ? request.costs.times[stage].all_reduce : Nanoseconds::zero()};
}

BatchShape batch_shape(const Worker& worker, const GpuRequest& request) {
  const std::int64_t share = request.plan.micro_batch_size / worker.replica_count;
  return {.first_layer = *request.model.layers().front().runnable,
          .loss = *request.model.layers().back().runnable,
          .seed = request.options.seed,
          .micro_batch_count = request.plan.micro_batch_count,
          .first_micro_batch = worker.copy * request.plan.micro_batch_count,
          .micro_batch_size = request.plan.micro_batch_size,
          .first_sample = worker.replica * share,
          .sample_count = share};
}

// Summed over micro-batches, replicas and copies this gives the gradient of the mean.
float loss_factor(const Plan& plan) {
  const std::int64_t parts = plan.micro_batch_count * plan.stages.back().replicas * plan.data_parallel;
  return 1.0F / static_cast<float>(parts);
}

}  // namespace

std::string worker_name(const Program& program, WorkerId worker, const Plan& plan) {
  const Worker& it = program.workers[worker];
  const std::vector<StageId> stages = stages_of_rank(program, it.rank);
  std::string name = stages.size() == 1 ? fmt::format("stage {}", stages.front().value)
                                        : fmt::format("rank {}", it.rank.value);
  if (it.replica_count > 1) name += fmt::format(", replica {}", it.replica);
  if (plan.data_parallel > 1) name += fmt::format(", copy {}", it.copy);
  return name;
}

PartRequest part_request(const Program& program, WorkerId worker, const GpuRequest& request) {
  const Worker& it = program.workers[worker];
  const StagePlan& planned = request.plan.stages[stages_of_rank(program, it.rank).front()];
  const auto place = static_cast<std::size_t>(it.copy * it.replica_count + it.replica);
  const bool own_gpu = request.options.partitions == PartitionKind::device;
  return {.name = worker_name(program, worker, request.plan),
          .device = own_gpu ? planned.devices.at(place).value : 0};
}

GpuWorkerSpec worker_spec(const Program& program, WorkerId worker, const OrderDemand& demand,
                          const GpuRequest& request) {
  const Worker& it = program.workers[worker];
  GpuWorkerSpec spec{.id = worker, .name = worker_name(program, worker, request.plan)};
  for (const StageId stage : stages_of_rank(program, it.rank))
    spec.stages.push_back(stage_spec(program, stage, demand, request));
  spec.stage_count = request.plan.stage_count();
  spec.batch = batch_shape(it, request);
  spec.loss_factor = loss_factor(request.plan);
  spec.optimizer = request.options.optimizer;
  return spec;
}

}  // namespace pipeplan
