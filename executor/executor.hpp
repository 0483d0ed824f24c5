#pragma once

// Runs a plan: real training iterations on a backend, or one on the virtual clock, which must equal the
// simulator op by op. Training is plain SGD on synthetic data; the gradients of an iteration's micro-batches
// are accumulated, then stepped.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/model_graph.hpp"
#include "planner/cost.hpp"
#include "profiler/profiler.hpp"
#include "simulator/timeline.hpp"

namespace pipeplan {

struct ExecuteOptions {
  Backend backend = Backend::cpu;
  std::int64_t warm_ups = 5;     // first iterations, not measured; the proof of equivalence compares them
  std::int64_t iterations = 15;  // measured
  std::int64_t seed = 0;
  double learning_rate = 0.1;
  // Runs more stages than there are cores; their times then mean nothing.
  bool share_cores = false;
  Progress progress;
};

// Numbers that two runs of the same training must share bit for bit.
struct TrainingRecord {
  std::vector<float> losses;  // of the warm-ups: iteration by iteration, in micro-batch order
  PerId<LayerId, std::vector<float>> gradients;   // of the last warm-up, before its step
  PerId<LayerId, std::vector<float>> parameters;  // after that step
};

struct Execution {
  Timeline timeline;                    // the measured iteration with the median time
  std::vector<Nanoseconds> iterations;  // measured, in order
  std::vector<double> mean_losses;      // of every iteration, warm-ups first
  TrainingRecord training;
  LoadVerdict load;  // over the computing ops of the measured iterations
};

// `costs` say how long things take on the virtual clock; a real backend takes only the sizes of its channels
// from them.
Result<Execution> execute(const ModelGraph& model, const Schedule& schedule, const Plan& plan,
                          const PipelineCosts& costs, const ExecuteOptions& options);

// The same training on one stage, micro-batches in the order of the plan's schedule: what a pipeline must
// equal.
Result<Execution> execute_single_stage(const ModelGraph& model, const Plan& plan, const Profile& profile,
                                       const ExecuteOptions& options);

// Whether two records are equal to the last bit, and if not, where they first differ.
struct Equivalence {
  bool equal = true;
  std::string difference;  // "gradient of block.2.mlp, element 17: 0.5 and 0.25"
};
Equivalence compare_training(const TrainingRecord& pipelined, const TrainingRecord& single,
                             const ModelGraph& model);

}  // namespace pipeplan
