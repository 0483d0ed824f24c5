#include "executor/virtual/virtual_executor.hpp"

#include "executor/command_time.hpp"
#include "executor/engine.hpp"
#include "executor/virtual/virtual_device.hpp"

namespace pipeplan {

Result<Execution> execute_virtually(const Schedule& schedule, const Replication& replication,
                                    const PipelineCosts& costs) {
  PIPEPLAN_TRY(program, compile(schedule, replication));
  VirtualEvents events(program.commands.size());
  PerId<WorkerId, std::unique_ptr<Device>> devices;
  for (const WorkerId worker : ids<WorkerId>(program.workers.size()))
    devices.push_back(std::make_unique<VirtualDevice>(
        worker, stages_of_rank(program, program.workers[worker].rank), costs, events));
  Engine engine(std::move(program), std::move(devices), boundary_bytes(costs));
  PIPEPLAN_TRY(result, engine.run_iteration(0));
  Execution execution;
  execution.timeline = std::move(result.timeline);
  execution.iterations = {execution.timeline.iteration};
  return execution;
}

}  // namespace pipeplan
