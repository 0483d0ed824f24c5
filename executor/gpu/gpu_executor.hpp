#pragma once

// Real training of a plan on GPUs: a GPU per worker, or all workers on the first GPU, each in a green context
// of its own (equal shares of the SMs) or on plain streams, where stages take SMs from each other.

#include "executor/executor.hpp"
#include "profiler/gpu/gpu_backend.hpp"

namespace pipeplan {

// The notes of the execution say what each worker was granted. Unavailable: no such GPU, or a stage for which
// it has no room, naming the stage, what was asked for and what is there.
Result<Execution> execute_on_gpu(const ModelGraph& model, const Schedule& schedule, const Plan& plan,
                                 const PipelineCosts& costs, const ExecuteOptions& options,
                                 GpuBackend& backend);

}  // namespace pipeplan
