#pragma once

// Runs a plan: real training iterations on a backend, or timing alone on the virtual clock (which must equal
// the simulator op by op) and by sleeping. Training is on synthetic data with the plan's optimizer; the
// gradients of an iteration's micro-batches are accumulated, summed over replicas and copies, then stepped.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "executor/checkpoint.hpp"
#include "models/layers/gpu_queue.hpp"
#include "models/layers/optimizer.hpp"
#include "models/model_graph.hpp"
#include "planner/cost.hpp"
#include "profiler/profiler.hpp"
#include "simulator/timeline.hpp"

namespace pipeplan {

struct ExecuteOptions {
  Backend backend = Backend::cpu;
  std::int64_t warm_ups = 5;  // first iterations, not measured
  // How many of them the record for the proof of equivalence covers; absent: all.
  std::optional<std::int64_t> recorded = {};
  std::int64_t iterations = 15;  // measured
  std::int64_t seed = 0;
  Optimizer optimizer;
  // Runs more workers than there are cores; their times then mean nothing.
  bool share_cores = false;
  // Tensors arrive no sooner than over the plan's links.
  bool emulate_links = false;
  // Several stages on one GPU (green or streams), or a GPU each (device).
  PartitionKind partitions = PartitionKind::green;
  std::optional<CheckpointOptions> checkpoints = {};
  Progress progress;
};

// Numbers that two runs of the same training must share, of the recorded warm-ups.
struct TrainingRecord {
  std::vector<float> losses;                     // iteration by iteration, copy by copy, in micro-batch order
  PerId<LayerId, std::vector<float>> gradients;  // of the last of them, before its step
  PerId<LayerId, std::vector<float>> parameters;  // after that step
};

struct Execution {
  Timeline timeline;                    // the measured iteration with the median time
  std::vector<Nanoseconds> iterations;  // measured, in order; none where a checkpoint had done them all
  std::vector<double> mean_losses;      // of every iteration, warm-ups and those before a resumption first
  // Of the warm-ups; absent without training, and in a resumed run, which has not seen the first.
  std::optional<TrainingRecord> training;
  LoadVerdict load;                             // over the computing ops of the measured iterations
  std::optional<std::int64_t> resumed_at = {};  // iterations that the checkpoint had done
  std::vector<std::string> notes = {};          // what the backend was granted, as sentences
};

// `costs` say how long things take on the virtual clock and asleep; a real backend takes the bytes of a
// boundary from them, and the links that it emulates.
Result<Execution> execute(const ModelGraph& model, const Schedule& schedule, const Plan& plan,
                          const PipelineCosts& costs, const ExecuteOptions& options);

// The same training on one stage of the CPU, the same global batch without replicas and copies, micro-batches
// in the order of the plan's schedule: what a pipeline must equal.
Result<Execution> execute_single_stage(const ModelGraph& model, const Plan& plan,
                                       const ExecuteOptions& options);

// How near two records must be: to the last bit, or within a relative distance per tensor (2-norm), for
// another order of summation or other hardware.
struct Closeness {
  double largest_distance_fraction = 0;  // 0: bit for bit
  bool parameters = true;                // else losses and gradients alone
  [[nodiscard]] bool to_the_last_bit() const { return largest_distance_fraction == 0; }
};
// Bit for bit on the CPU without replicas and copies, in an order whose stages all sum the gradients of their
// micro-batches as the plan's schedule on one stage does. Else 1e-5, of the first iteration, before rounding
// has grown into other parameters; under Adam without the parameters: it divides a gradient by its own size,
// so that one which is 0 but for rounding (a key's bias in attention) becomes a whole step either way. A
// wrong step still shows in the gradients of the iterations behind it.
Closeness wanted_closeness(const Plan& plan, const Schedule& schedule, Backend backend);

struct Equivalence {
  bool equal = true;
  double largest_distance_fraction = 0;  // ||a - b|| / ||b|| over all tensors; losses as one tensor
  std::string difference;                // "gradient of block.2.mlp, element 17: 0.5 and 0.25"
};
Equivalence compare_training(const TrainingRecord& pipelined, const TrainingRecord& single,
                             const ModelGraph& model, const Closeness& closeness);

}  // namespace pipeplan
