#include "executor/command_time.hpp"

#include "models/base/assert.hpp"
#include "simulator/simulate.hpp"

namespace pipeplan {
Nanoseconds command_time(const Command& command, const PipelineCosts& costs) {
  const StageTimes& times = costs.times[command.op.stage];
  switch (command.kind) {
    case CommandKind::compute: return op_time(command.op.kind, times, command.recomputed_apart);
    case CommandKind::send: return Nanoseconds::zero();
    // A ring takes as long for either half; an odd nanosecond goes to the first.
    case CommandKind::reduce_scatter: return times.all_reduce - times.all_reduce / 2;
    case CommandKind::all_gather: return times.all_reduce / 2;
    case CommandKind::step: return times.optimizer;
  }
  PIPEPLAN_UNREACHABLE("a command without a time");
}

std::size_t crossed_boundary(const Op& sent) {
  return sends_gradient(sent.kind) ? sent.stage.previous().index() : sent.stage.index();
}

std::vector<StageId> stages_of_rank(const Program& program, RankId rank) {
  std::vector<StageId> stages;
  for (const StageId stage : ids<StageId>(program.homes.size()))
    if (program.homes[stage] == rank) stages.push_back(stage);
  return stages;
}

}  // namespace pipeplan
