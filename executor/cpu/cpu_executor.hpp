#pragma once

// Real training of a plan on this machine's cores, a worker per core.

#include "executor/executor.hpp"

namespace pipeplan {

Result<Execution> execute_on_cpu(const ModelGraph& model, const Schedule& schedule, const Plan& plan,
                                 const PipelineCosts& costs, const ExecuteOptions& options);

}  // namespace pipeplan
