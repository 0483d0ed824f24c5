#include "executor/cpu/cpu_executor.hpp"

#include <fmt/format.h>

#include "executor/cpu/cpu_device.hpp"
#include "executor/training_run.hpp"
#include "models/layers/core_pin.hpp"

namespace pipeplan {
namespace {

Result<void> check_cores(std::size_t workers, std::size_t cores, const TrainingRequest& request) {
  if (request.options.share_cores || workers <= cores) return {};
  const char* what = workers == request.plan.stages.size() ? "stages" : "workers";
  return fail(ErrorCode::unavailable, {},
              fmt::format("{} {} need {} cores, this process has {}", workers, what, workers, cores),
              "plan with fewer stages, run --backend virtual, or --share-cores (times then mean nothing)");
}

// Workers share cores in turn where there are too few; none where the system does not tell its cores.
std::optional<int> core_of(WorkerId worker, const std::vector<int>& cores) {
  if (cores.empty()) return std::nullopt;
  return cores[worker.index() % cores.size()];
}

}  // namespace

Result<Execution> execute_on_cpu(const ModelGraph& model, const Schedule& schedule, const Plan& plan,
                                 const PipelineCosts& costs, const ExecuteOptions& options) {
  PIPEPLAN_TRY(program, compile(schedule, replication(plan)));
  const TrainingRequest request{model, schedule, plan, costs, options};
  const std::vector<int> cores = usable_cores();
  const std::size_t workers = program.workers.size();
  PIPEPLAN_CHECK(check_cores(workers, cores.size(), request));
  PIPEPLAN_TRY(layers, runnable_layers(model));
  const Waiting waiting = workers <= cores.size() ? Waiting::spins : Waiting::sleeps;
  CpuRig rig(program.commands.size(), waiting, std::move(layers), options.emulate_links ? &costs : nullptr);
  TrainingCrew crew{.program = {}, .devices = {}, .boundary_bytes = boundary_bytes(costs)};
  const OrderDemand demand = order_demand(schedule);
  for (const WorkerId worker : ids<WorkerId>(workers)) {
    WorkerSpec spec = worker_spec(program, worker, demand, request, rig.layers);
    PIPEPLAN_TRY(arena, Arena::reserve(memory_needed(spec), spec.name));
    crew.devices.push_back(
        std::make_unique<CpuDevice>(std::move(spec), core_of(worker, cores), std::move(arena), rig));
  }
  crew.program = std::move(program);
  return run_training(std::move(crew), model, schedule, plan, options);
}

}  // namespace pipeplan
