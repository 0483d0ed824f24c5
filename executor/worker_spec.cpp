#include "executor/worker_spec.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "executor/command_time.hpp"

namespace pipeplan {
namespace {

// Per layer of a stage whether it is recomputed.
std::vector<bool> recomputed_layers(const StagePlan& planned) {
  std::vector<bool> recomputed(static_cast<std::size_t>(planned.last.value - planned.first.value + 1));
  for (const LayerId layer : planned.recompute)
    recomputed.at(static_cast<std::size_t>(layer.value - planned.first.value)) = true;
  return recomputed;
}

std::int64_t share_of_samples(const Worker& worker, const Plan& plan) {
  return plan.micro_batch_size / worker.replica_count;
}

SegmentSpec segment_spec(const Worker& worker, StageId stage, const TrainingRequest& request,
                         const RunnableLayers& layers) {
  const StagePlan& planned = request.plan.stages[stage];
  std::vector<bool> recomputed = recomputed_layers(planned);
  return {.layers = std::span(layers).subspan(planned.first.index(), recomputed.size()),
          .first_layer = planned.first.value,
          .batch = share_of_samples(worker, request.plan),
          .micro_batch_count = request.plan.micro_batch_count,
          .optimizer = request.options.optimizer.rule,
          .recomputed = std::move(recomputed)};
}

StageSpec stage_spec(const Program& program, StageId stage, SegmentSpec segment, const OrderDemand& demand) {
  const std::size_t s = stage.index();
  const bool last = s + 1 == program.homes.size();
  return {.stage = stage,
          .segment = std::move(segment),
          .peak_in_flight = demand.stage_peak[stage],
          .split_in_flight = demand.stage_split_peak[stage],
          .activation_slots = s > 0 ? demand.forward_lead.at(s - 1) : 0,
          .gradient_slots = last ? 0 : demand.backward_lead.at(s),
          .peers = program.peers[stage]};
}

BatchShare batch_share(const Worker& worker, const std::vector<StageId>& stages,
                       const TrainingRequest& request, const RunnableLayers& layers) {
  const Plan& plan = request.plan;
  const std::int64_t samples = share_of_samples(worker, plan);
  const bool first = stages.front().value == 0;
  const bool last = stages.back().next() == plan.stages.end_id();
  return {.first_layer = *request.model.layers().front().runnable,
          .loss = *request.model.layers().back().runnable,
          .seed = request.options.seed,
          .micro_batch_count = plan.micro_batch_count,
          .first_micro_batch = worker.copy * plan.micro_batch_count,
          .micro_batch_size = plan.micro_batch_size,
          .first_sample = worker.replica * samples,
          .sample_count = samples,
          .input_count = first ? layers.front()->input_count(1) : 0,
          .target_count = last ? layers.back()->target_count(1) : 0};
}

// Summed over micro-batches, replicas and copies this gives the gradient of the mean.
float loss_factor(const Plan& plan) {
  const std::int64_t parts = plan.micro_batch_count * plan.stages.back().replicas * plan.data_parallel;
  return 1.0F / static_cast<float>(parts);
}

}  // namespace

const StageSpec& WorkerSpec::at(StageId stage) const {
  return *std::ranges::find(stages, stage, &StageSpec::stage);
}

std::string worker_name(const Program& program, WorkerId worker, const Plan& plan) {
  const Worker& it = program.workers[worker];
  const std::vector<StageId> stages = stages_of_rank(program, it.rank);
  std::string name = stages.size() == 1 ? fmt::format("stage {}", stages.front().value)
                                        : fmt::format("rank {}", it.rank.value);
  if (it.replica_count > 1) name += fmt::format(", replica {}", it.replica);
  if (plan.data_parallel > 1) name += fmt::format(", copy {}", it.copy);
  return name;
}

WorkerSpec worker_spec(const Program& program, WorkerId worker, const OrderDemand& demand,
                       const TrainingRequest& request, const RunnableLayers& layers) {
  const Worker& it = program.workers[worker];
  const std::vector<StageId> stages = stages_of_rank(program, it.rank);
  WorkerSpec spec{.id = worker,
                  .name = worker_name(program, worker, request.plan),
                  .stages = {},
                  .stage_count = request.plan.stage_count(),
                  .batch = batch_share(it, stages, request, layers),
                  .loss_factor = loss_factor(request.plan),
                  .optimizer = request.options.optimizer};
  for (const StageId stage : stages)
    spec.stages.push_back(stage_spec(program, stage, segment_spec(it, stage, request, layers), demand));
  return spec;
}

}  // namespace pipeplan
