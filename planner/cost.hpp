#pragma once

// Turns a profile into numbers that planners and the simulator compute with: costs of every layer at one
// micro-batch size as prefix sums (CostTable), and the costs of a pipeline that has been cut (PipelineCosts).
// One place computes the time of a stage, the bytes of a cut and the memory of a rank; planner, simulator and
// executor all ask here.

#include <cstdint>
#include <vector>

#include "models/layers/arena.hpp"
#include "planner/plan.hpp"
#include "planner/ratio.hpp"
#include "profiler/profile.hpp"

namespace pipeplan {

// Times of one op of a stage, per micro-batch.
struct StageTimes {
  Nanoseconds forward{};
  Nanoseconds backward_input{};
  Nanoseconds backward_weight{};
  Nanoseconds optimizer{};
  [[nodiscard]] Nanoseconds backward() const { return backward_input + backward_weight; }
  [[nodiscard]] Nanoseconds per_micro_batch() const { return forward + backward_input + backward_weight; }
  friend bool operator==(const StageTimes&, const StageTimes&) = default;
};

// All layers at one micro-batch size. Index i of a prefix sum covers layers 0 … i-1; index i of `cut_bytes`
// is the cut before layer i (0 and n: nothing crosses).
struct CostTable {
  std::int64_t layer_count = 0;
  std::vector<std::int64_t> forward, backward_input, backward_weight, optimizer;  // prefix sums, ns
  std::vector<std::int64_t> activation, parameter;                                // prefix sums, bytes
  std::vector<std::int64_t> workspace;                                            // per layer, bytes
  // Bytes of the distinct producers with a consumer behind the cut, relayed: a tensor counts at every cut it
  // crosses.
  std::vector<std::int64_t> cut_bytes;

  // Layers [first, end) on a device `speed_factor` times as fast; each time divided and rounded up.
  [[nodiscard]] StageTimes stage_times(std::int64_t first, std::int64_t end, double speed_factor) const;
  // The same stage's time per micro-batch alone.
  [[nodiscard]] std::int64_t stage_time(std::int64_t first, std::int64_t end, const Ratio& speed) const;
  [[nodiscard]] std::int64_t total_time() const {
    return forward.back() + backward_input.back() + backward_weight.back();
  }
};

// What a total of bytes may come to, so that sums of several totals stay within int64.
inline constexpr Bytes largest_total_bytes{std::int64_t{1} << 60};
// Largest multiple of the parameters' bytes that a StateRule may ask for.
inline constexpr double largest_state_factor = 64;

// Refuses sizes outside the profile (see cost_at), totals beyond largest_total_time for `micro_batch_count`,
// and totals of bytes beyond largest_total_bytes. An edge's own `bytes` hold for the producer's first
// profiled micro-batch size, and grow in proportion with the size.
Result<CostTable> make_cost_table(const Profile& profile, std::int64_t micro_batch_size,
                                  std::int64_t micro_batch_count, Extrapolation extrapolation);

// One direction pair between neighbouring stages.
struct BoundaryCosts {
  Bytes bytes;  // forward per micro-batch; the gradient has the same
  Link link;
  std::int64_t receive_buffers = 1;  // for each direction; see memory.hpp
  friend bool operator==(const BoundaryCosts&, const BoundaryCosts&) = default;
};

// The memory of a rank: what is there all the time, and what each micro-batch in flight adds.
struct StageMemory {
  MemoryUse constant;  // weights, gradients, state, workspace, communication, reserved
  Bytes activation_per_micro_batch;
  std::optional<Bytes> limit;  // the device's memory; reserved counts against it
  friend bool operator==(const StageMemory&, const StageMemory&) = default;
};

// Everything the simulator needs to know of a pipeline: one stage per rank, in order.
struct PipelineCosts {
  PerId<StageId, StageTimes> times;
  PerId<StageId, StageMemory> memory;
  std::vector<BoundaryCosts> boundaries;  // between stage i and i+1
  TransferMode transfers = TransferMode::overlapped;
  friend bool operator==(const PipelineCosts&, const PipelineCosts&) = default;
};

// The costs of `plan` under `profile` on `cluster` (the plan's own, or another to ask what-if). Errors: other
// layers than the profile's, a device that the cluster lacks, totals that leave the limits.
Result<PipelineCosts> pipeline_costs(const Plan& plan, const Profile& profile, const Cluster& cluster,
                                     Extrapolation extrapolation = Extrapolation::refused);

// The largest stage time per micro-batch and, under overlapped transfers, the largest busy time of a link:
// what the objective slowest-stage minimises (mode ignored and uncontended: stages alone).
Nanoseconds slowest_stage(const PipelineCosts& costs);

}  // namespace pipeplan
