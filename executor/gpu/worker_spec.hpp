#pragma once

// What each worker of a plan does, put into words for a worker on a GPU: its stages, how many buffers the
// order of ops makes it hold, its share of the data. Pure.

#include "executor/executor.hpp"
#include "executor/gpu/gpu_worker.hpp"
#include "profiler/gpu/gpu_backend.hpp"
#include "simulator/order_demand.hpp"

namespace pipeplan {

// All that decides what the workers of a run do.
struct GpuRequest {
  const ModelGraph& model;
  const Schedule& schedule;
  const Plan& plan;
  const PipelineCosts& costs;
  const ExecuteOptions& options;
};

// "stage 1", "rank 0" where it has several stages; with replica and copy where there are several.
std::string worker_name(const Program& program, WorkerId worker, const Plan& plan);

// The queue that a worker asks for.
PartRequest part_request(const Program& program, WorkerId worker, const GpuRequest& request);

GpuWorkerSpec worker_spec(const Program& program, WorkerId worker, const OrderDemand& demand,
                          const GpuRequest& request);

}  // namespace pipeplan
