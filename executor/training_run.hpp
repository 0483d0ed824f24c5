#pragma once

// The training loop, the same for every set of devices: iterations, losses, the record for the proof of
// equivalence, the median of the measured iterations, checkpoints and resumption. A backend hands over its
// devices and gets an Execution back.

#include <memory>
#include <string>
#include <vector>

#include "executor/device.hpp"
#include "executor/engine.hpp"
#include "executor/executor.hpp"
#include "executor/program.hpp"

namespace pipeplan {

// A program with all that runs it.
struct TrainingCrew {
  Program program;
  PerId<WorkerId, std::unique_ptr<TrainingDevice>> devices;
  std::vector<Bytes> boundary_bytes;    // as the engine wants them
  std::vector<std::string> notes = {};  // what the devices were granted, as sentences
};

// `schedule` is what the program was compiled from. Without anything left to run, where a checkpoint has all
// iterations already, the execution has no iterations and an empty timeline.
Result<Execution> run_training(TrainingCrew crew, const ModelGraph& model, const Schedule& schedule,
                               const Plan& plan, const ExecuteOptions& options);

}  // namespace pipeplan
