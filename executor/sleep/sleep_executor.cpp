#include "executor/sleep/sleep_executor.hpp"

#include "executor/command_time.hpp"
#include "executor/engine.hpp"
#include "executor/measurements.hpp"
#include "executor/sleep/sleep_device.hpp"

namespace pipeplan {

Result<Execution> execute_asleep(const Schedule& schedule, const Replication& replication,
                                 const PipelineCosts& costs, const ExecuteOptions& options) {
  PIPEPLAN_TRY(program, compile(schedule, replication));
  EventBoard events(program.commands.size(), Waiting::sleeps);
  PerId<WorkerId, std::unique_ptr<Device>> devices;
  for (const WorkerId worker : ids<WorkerId>(program.workers.size()))
    devices.push_back(std::make_unique<SleepDevice>(
        worker, stages_of_rank(program, program.workers[worker].rank), costs, events));
  Engine engine(std::move(program), std::move(devices), boundary_bytes(costs));
  Measurements measurements;
  const std::int64_t total = options.warm_ups + options.iterations;
  for (std::int64_t number = 0; number < total; ++number) {
    PIPEPLAN_TRY(result, engine.run_iteration(number));
    if (number >= options.warm_ups) measurements.add(std::move(result));
    if (options.progress) options.progress(number + 1, total);
  }
  Execution execution;
  measurements.move_into(execution);
  return execution;
}

}  // namespace pipeplan
