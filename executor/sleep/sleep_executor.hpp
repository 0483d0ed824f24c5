#pragma once

// Iterations of a plan slept through on this machine's clock.

#include "executor/executor.hpp"
#include "executor/program.hpp"

namespace pipeplan {

// Warm-ups and iterations as `options` say; nothing is trained.
Result<Execution> execute_asleep(const Schedule& schedule, const Replication& replication,
                                 const PipelineCosts& costs, const ExecuteOptions& options);

}  // namespace pipeplan
