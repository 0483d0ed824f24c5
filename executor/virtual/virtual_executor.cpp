#include "executor/virtual/virtual_executor.hpp"

#include "executor/engine.hpp"
#include "executor/virtual/virtual_device.hpp"

namespace pipeplan {

Result<Execution> execute_virtually(const Schedule& schedule, const PipelineCosts& costs) {
  PIPEPLAN_TRY(program, compile(schedule));
  VirtualEvents events(program.commands.size());
  PerId<RankId, std::unique_ptr<Device>> devices;
  for (const StageId stage : ids<StageId>(schedule.ranks.size()))
    devices.push_back(std::make_unique<VirtualDevice>(stage, costs, events));
  std::vector<Bytes> boundary_bytes;
  for (const BoundaryCosts& boundary : costs.boundaries) boundary_bytes.push_back(boundary.bytes);
  Engine engine(std::move(program), std::move(devices), std::move(boundary_bytes));
  Execution execution;
  execution.timeline = engine.run_iteration(0).timeline;
  execution.iterations = {execution.timeline.iteration};
  return execution;
}

}  // namespace pipeplan
