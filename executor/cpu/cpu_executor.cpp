#include "executor/cpu/cpu_executor.hpp"

#include <fmt/format.h>

#include "executor/command_time.hpp"
#include "executor/cpu/cpu_device.hpp"
#include "executor/training_run.hpp"
#include "models/layers/core_pin.hpp"
#include "simulator/order_demand.hpp"

namespace pipeplan {
namespace {

// Per layer of a stage whether it is recomputed.
std::vector<bool> recomputed_layers(const StagePlan& planned) {
  std::vector<bool> recomputed(static_cast<std::size_t>(planned.last.value - planned.first.value + 1));
  for (const LayerId layer : planned.recompute)
    recomputed.at(static_cast<std::size_t>(layer.value - planned.first.value)) = true;
  return recomputed;
}

// Puts a plan into words for CPU devices, and makes them.
class WorkerMaker {
 public:
  WorkerMaker(const ModelGraph& model, const Schedule& schedule, const Plan& plan, const PipelineCosts& costs,
              const ExecuteOptions& options)
      : model_(model),
        plan_(plan),
        costs_(costs),
        options_(options),
        demand_(order_demand(schedule)),
        cores_(usable_cores()) {}

  Result<void> check_cores(std::size_t workers) const {
    if (options_.share_cores || workers <= cores_.size()) return {};
    const char* what = workers == plan_.stages.size() ? "stages" : "workers";
    return fail(
        ErrorCode::unavailable, {},
        fmt::format("{} {} need {} cores, this process has {}", workers, what, workers, cores_.size()),
        "plan with fewer stages, run --backend virtual, or --share-cores (times then mean nothing)");
  }

  [[nodiscard]] Waiting waiting(std::size_t workers) const {
    return workers <= cores_.size() ? Waiting::spins : Waiting::sleeps;
  }

  Result<void> make_layers() {
    PIPEPLAN_TRY(layers, runnable_layers(model_));
    layers_ = std::move(layers);
    return {};
  }

  Result<std::unique_ptr<TrainingDevice>> make_device(const Program& program, WorkerId worker,
                                                      CpuRig& rig) const {
    CpuWorkerSpec spec = worker_spec(program, worker);
    PIPEPLAN_TRY(arena, Arena::reserve(CpuDevice::memory_needed(spec), spec.name));
    return std::make_unique<CpuDevice>(std::move(spec), std::move(arena), rig);
  }

 private:
  [[nodiscard]] CpuWorkerSpec worker_spec(const Program& program, WorkerId id) const {
    const Worker& worker = program.workers[id];
    const std::vector<StageId> stages = stages_of_rank(program, worker.rank);
    CpuWorkerSpec spec{.id = id, .stage_count = plan_.stage_count(), .batch = batch_share(worker)};
    spec.name = stages.size() == 1 ? fmt::format("stage {}", stages.front().value)
                                   : fmt::format("rank {}", worker.rank.value);
    for (const StageId stage : stages) {
      spec.stages.push_back(stage_spec(program, stage, spec.batch.sample_count));
      if (stage.value == 0) spec.batch.input_count = layers_.front()->input_count(1);
      if (stage.next() == plan_.stages.end_id()) spec.batch.target_count = layers_.back()->target_count(1);
    }
    // Summed over micro-batches, replicas and copies this gives the gradient of the mean.
    spec.loss_factor = 1.0F / static_cast<float>(plan_.micro_batch_count * plan_.stages.back().replicas *
                                                 plan_.data_parallel);
    spec.optimizer = options_.optimizer;
    if (!cores_.empty()) spec.place.core = cores_[id.index() % cores_.size()];
    spec.place.waiting = waiting(program.workers.size());
    if (options_.emulate_links) spec.links = &costs_;
    return spec;
  }

  [[nodiscard]] CpuStageSpec stage_spec(const Program& program, StageId stage, std::int64_t samples) const {
    const StagePlan& planned = plan_.stages[stage];
    const std::size_t s = stage.index();
    const std::vector<bool> recomputed = recomputed_layers(planned);
    return {.stage = stage,
            .segment = {.layers = std::span(layers_).subspan(planned.first.index(), recomputed.size()),
                        .first_layer = planned.first.value,
                        .batch = samples,
                        .micro_batch_count = plan_.micro_batch_count,
                        .optimizer = options_.optimizer.rule,
                        .recomputed = recomputed},
            .peak_in_flight = demand_.stage_peak[stage],
            .split_in_flight = demand_.stage_split_peak[stage],
            .activation_slots = s > 0 ? demand_.forward_lead.at(s - 1) : 0,
            .gradient_slots = s + 1 < plan_.stages.size() ? demand_.backward_lead.at(s) : 0,
            .peers = program.peers[stage]};
  }

  [[nodiscard]] BatchShare batch_share(const Worker& worker) const {
    const std::int64_t samples = plan_.micro_batch_size / worker.replica_count;
    return {.first_layer = *model_.layers().front().runnable,
            .loss = *model_.layers().back().runnable,
            .seed = options_.seed,
            .micro_batch_count = plan_.micro_batch_count,
            .first_micro_batch = worker.copy * plan_.micro_batch_count,
            .micro_batch_size = plan_.micro_batch_size,
            .first_sample = worker.replica * samples,
            .sample_count = samples};
  }

  const ModelGraph& model_;
  const Plan& plan_;
  const PipelineCosts& costs_;
  const ExecuteOptions& options_;
  OrderDemand demand_;
  std::vector<int> cores_;
  RunnableLayers layers_;
};

}  // namespace

Result<Execution> execute_on_cpu(const ModelGraph& model, const Schedule& schedule, const Plan& plan,
                                 const PipelineCosts& costs, const ExecuteOptions& options) {
  PIPEPLAN_TRY(program, compile(schedule, replication(plan)));
  WorkerMaker maker(model, schedule, plan, costs, options);
  const std::size_t workers = program.workers.size();
  PIPEPLAN_CHECK(maker.check_cores(workers));
  PIPEPLAN_CHECK(maker.make_layers());
  CpuRig rig(program.commands.size(), maker.waiting(workers));
  TrainingCrew crew{.program = {}, .devices = {}, .boundary_bytes = boundary_bytes(costs)};
  for (const WorkerId worker : ids<WorkerId>(workers)) {
    PIPEPLAN_TRY(device, maker.make_device(program, worker, rig));
    crew.devices.push_back(std::move(device));
  }
  crew.program = std::move(program);
  return run_training(std::move(crew), model, schedule, plan, options);
}

}  // namespace pipeplan
