#pragma once

// One iteration of a plan on the virtual clock.

#include "executor/executor.hpp"
#include "executor/program.hpp"

namespace pipeplan {

Result<Execution> execute_virtually(const Schedule& schedule, const Replication& replication,
                                    const PipelineCosts& costs);

}  // namespace pipeplan
