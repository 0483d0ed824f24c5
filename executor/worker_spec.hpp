#pragma once

// What each worker of a plan does, whatever it runs on: its stages, how many buffers the order of ops makes
// it hold, its share of the data. Pure.

#include <cstdint>
#include <string>
#include <vector>

#include "executor/batch_share.hpp"
#include "executor/executor.hpp"
#include "executor/program.hpp"
#include "models/layers/segment.hpp"
#include "simulator/order_demand.hpp"

namespace pipeplan {

// All that decides what the workers of a run do.
struct TrainingRequest {
  const ModelGraph& model;
  const Schedule& schedule;
  const Plan& plan;
  const PipelineCosts& costs;
  const ExecuteOptions& options;
};

// A stage as a worker is given it.
struct StageSpec {
  StageId stage;
  SegmentSpec segment;
  std::int64_t peak_in_flight = 1;    // micro-batches between F and the end of their backward
  std::int64_t split_in_flight = 0;   // between B and W
  std::int64_t activation_slots = 0;  // receive buffers from the stage before, 0 for the first stage
  std::int64_t gradient_slots = 0;    // from the stage behind, 0 for the last stage
  std::vector<WorkerId> peers;        // that hold the same stage, this worker among them
};

struct WorkerSpec {
  WorkerId id;
  std::string name;               // for messages
  std::vector<StageSpec> stages;  // ascending
  std::int64_t stage_count = 1;   // of the network
  BatchShare batch;
  float loss_factor = 1;  // of each micro-batch's mean loss in the loss of the iteration
  Optimizer optimizer;

  [[nodiscard]] bool is_last(StageId stage) const { return stage.value + 1 == stage_count; }
  [[nodiscard]] const StageSpec& at(StageId stage) const;
};

// "stage 1", "rank 0" where it has several stages; with replica and copy where there are several.
std::string worker_name(const Program& program, WorkerId worker, const Plan& plan);

// `layers` are those of the whole network on the worker's processor; they outlive the spec, which refers to
// them.
WorkerSpec worker_spec(const Program& program, WorkerId worker, const OrderDemand& demand,
                       const TrainingRequest& request, const RunnableLayers& layers);

}  // namespace pipeplan
