#pragma once

// The one way to a plan: make_plan checks the request, asks the chosen algorithm for the cuts and fills in
// the rest.

#include <cstdint>
#include <optional>
#include <vector>

#include "models/base/warning.hpp"
#include "planner/cost.hpp"
#include "planner/plan.hpp"
#include "planner/split.hpp"

namespace pipeplan {

enum class Algorithm { chain_dp, even_split, brute_force };

constexpr auto spellings(Algorithm) {
  using enum Algorithm;
  return std::to_array<Spelling<Algorithm>>(
      {{chain_dp, "chain-dp"}, {even_split, "even"}, {brute_force, "brute-force"}});
}

// Which layers run their forward again instead of keeping their activations: none, or all that can.
enum class Recomputation { none, all };

constexpr auto spellings(Recomputation) {
  using enum Recomputation;
  return std::to_array<Spelling<Recomputation>>({{none, "none"}, {all, "all"}});
}

struct PlanOptions {
  Algorithm algorithm = Algorithm::chain_dp;
  // A range to choose from; without it min(devices / copies, layers) stages.
  std::optional<std::int64_t> fewest_stages = {}, most_stages = {};
  std::optional<std::int64_t> micro_batch_size = {}, micro_batch_count = {}, global_batch = {};
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  TransferMode transfers = TransferMode::overlapped;
  StateRule state;
  std::optional<Bytes> memory_limit = {};  // per device, in place of the cluster's
  Extrapolation extrapolation = Extrapolation::refused;
  std::int64_t data_parallel = 1;  // copies of the pipeline
  Recomputation recompute = Recomputation::none;
  RecomputeMode recompute_mode = RecomputeMode::fused;
};

enum class PlanOutcome { planned, infeasible };

// Why no plan fits.
struct Infeasible {
  StageId
      tightest_stage;  // in the split that needs the least memory: the stage that needs the most of its limit
  LayerId first, last;  // its layers in that split
  MemoryUse needed;     // what that stage would hold
  Bytes limit;          // what its device has
  // The smallest memory of every device (all alike) with which the algorithm has a plan.
  Bytes smallest_memory;
  std::int64_t stage_count = 0;
};

struct PlanAnswer {
  PlanOutcome outcome = PlanOutcome::planned;
  Plan plan;              // if planned
  Infeasible infeasible;  // if not
  std::vector<Warning> warnings;
};

// Stages take the cluster's devices in order, copy after copy of the pipeline. Where the request leaves the
// micro-batches open: their size is the smallest profiled that divides the global batch, their count four per
// stage (GPipe, Huang et al. 2019: with m >= 4 p the bubble is negligible). Of a range of stage counts the
// one with the lowest slowest stage is taken, the smaller at a tie. A request that contradicts itself is
// bad_usage; that nothing fits in memory is an answer, not an error.
Result<PlanAnswer> make_plan(const Profile& profile, const Cluster& cluster, const PlanOptions& options);

}  // namespace pipeplan
