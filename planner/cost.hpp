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
  Nanoseconds recompute{};   // the forward of its recomputed layers
  Nanoseconds all_reduce{};  // of its gradients among replicas and copies, once per iteration
  [[nodiscard]] Nanoseconds backward() const { return backward_input + backward_weight; }
  [[nodiscard]] Nanoseconds per_micro_batch() const {
    return forward + backward_input + backward_weight + recompute;
  }
  friend bool operator==(const StageTimes&, const StageTimes&) = default;
};

// All layers at one micro-batch size. Index i of a prefix sum covers layers 0 … i-1; index i of `cut_bytes`
// is the cut before layer i (0 and n: nothing crosses).
//
// Recomputed layers keep no activations per micro-batch. Of each run of neighbouring ones the micro-batch
// keeps the input; their activations exist once per stage, filled by the forward and again before the
// backward.
struct CostTable {
  std::int64_t layer_count = 0;
  std::vector<std::int64_t> forward, backward_input, backward_weight, optimizer;  // prefix sums, ns
  std::vector<std::int64_t> rerun;  // prefix sums, ns: the forward of recomputed layers
  // Prefix sums, bytes. `activation` is kept per micro-batch: also the input of a run that begins here;
  // `rerun_activation` is there once; `deferred` is kept per micro-batch from B to W.
  std::vector<std::int64_t> activation, rerun_activation, deferred, parameter;
  std::vector<std::int64_t> workspace;  // per layer, bytes
  // Per layer, bytes per micro-batch: what a stage that begins with it keeps besides, since it begins a run
  // there: the layer's input, where it and the layer before are recomputed.
  std::vector<std::int64_t> entering;
  // Bytes of the distinct producers with a consumer behind the cut, relayed: a tensor counts at every cut it
  // crosses.
  std::vector<std::int64_t> cut_bytes;

  // Layers [first, end) on a device `speed_factor` times as fast; each time divided and rounded up.
  [[nodiscard]] StageTimes stage_times(std::int64_t first, std::int64_t end, double speed_factor) const;
  // The same stage's time per micro-batch alone.
  [[nodiscard]] std::int64_t stage_time(std::int64_t first, std::int64_t end, const Ratio& speed) const;
  [[nodiscard]] std::int64_t total_time() const {
    return forward.back() + backward_input.back() + backward_weight.back() + rerun.back();
  }
};

// What a total of bytes may come to, so that sums of several totals stay within int64.
inline constexpr Bytes largest_total_bytes{std::int64_t{1} << 60};
// Largest multiple of the parameters' bytes that a StateRule may ask for.
inline constexpr double largest_state_factor = 64;

// Refuses sizes outside the profile (see cost_at), totals beyond largest_total_time for `micro_batch_count`,
// and totals of bytes beyond largest_total_bytes. An edge's own `bytes` hold for the producer's first
// profiled micro-batch size, and grow in proportion with the size. `recomputed`: per layer; empty: none.
Result<CostTable> make_cost_table(const Profile& profile, std::int64_t micro_batch_size,
                                  std::int64_t micro_batch_count, Extrapolation extrapolation,
                                  const std::vector<bool>& recomputed = {});

// One direction pair between neighbouring stages.
struct BoundaryCosts {
  // Forward per micro-batch, over the busiest port: the side with fewer replicas has the most per device. The
  // gradient has the same.
  Bytes bytes;
  Link link;
  std::int64_t receive_buffers = 1;  // for each direction; see memory.hpp
  // One receive buffer of a device behind the boundary, for an activation, and before it, for a gradient.
  Bytes activation_buffer, gradient_buffer;
  friend bool operator==(const BoundaryCosts&, const BoundaryCosts&) = default;
};

// The memory of a stage: what is there all the time, and what each micro-batch in flight adds.
struct StageMemory {
  // Weights, gradients, state, workspace, communication, reserved; activations of recomputed layers.
  MemoryUse constant;
  Bytes activation_per_micro_batch;     // from F to the end of the backward
  Bytes deferred_per_micro_batch = {};  // from B to W, where the two run apart
  std::optional<Bytes> limit;           // the device's memory; reserved counts against it
  friend bool operator==(const StageMemory&, const StageMemory&) = default;
};

// Everything the simulator needs to know of a pipeline, stage by stage: of one replica in one copy.
struct PipelineCosts {
  PerId<StageId, StageTimes> times;
  PerId<StageId, StageMemory> memory;
  std::vector<BoundaryCosts> boundaries;  // between stage i and i+1
  TransferMode transfers = TransferMode::overlapped;
  RecomputeMode recompute_mode = RecomputeMode::fused;
  friend bool operator==(const PipelineCosts&, const PipelineCosts&) = default;
};

// The costs of `plan` under `profile` on `cluster` (the plan's own, or another to ask what-if). Where a rank
// has several stages, no named schedule says how many receive buffers there are: one of each, until
// fit_to_order. Errors: other layers than the profile's, a device that the cluster lacks, recomputation of a
// layer that cannot, totals that leave the limits.
Result<PipelineCosts> pipeline_costs(const Plan& plan, const Profile& profile, const Cluster& cluster,
                                     Extrapolation extrapolation = Extrapolation::refused);

// The largest stage time per micro-batch and, under overlapped transfers, the largest busy time of a link:
// what the objective slowest-stage minimises (mode ignored and uncontended: stages alone).
Nanoseconds slowest_stage(const PipelineCosts& costs);

}  // namespace pipeplan
