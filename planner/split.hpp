#pragma once

// The question that every planning algorithm answers (SplitProblem), and how good an answer is (SplitScore):
// one definition, shared by all of them, so that they can be held against each other.

#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

#include "planner/cost.hpp"
#include "planner/plan.hpp"

namespace pipeplan {

// What an algorithm is asked: cut `table` into exactly `stages` contiguous, non-empty stages.
struct SplitProblem {
  const CostTable* table = nullptr;
  std::int64_t stages = 1;
  std::int64_t micro_batch_count = 1;
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  TransferMode transfers = TransferMode::overlapped;
  StateRule state;
  std::vector<DeviceType> devices;  // per stage
  std::vector<Link> links;          // between stage i and i+1
};

// How good a split is, in the order of the tie-breaks (cost-model: value, transfer bytes, largest memory,
// boundaries).
struct SplitScore {
  std::int64_t slowest_ns = 0;
  std::int64_t transfer_bytes = 0;
  std::int64_t largest_memory = 0;
  std::vector<std::int64_t> bounds;  // stages + 1 numbers, 0 … n, ascending
  friend auto operator<=>(const SplitScore&, const SplitScore&) = default;
};

// The answer of one algorithm: a split, or none that fits.
using SplitAnswer = std::optional<SplitScore>;

// The score of a split whatever its memory; the definition all algorithms share.
SplitScore score_split(const SplitProblem& problem, std::vector<std::int64_t> bounds);
// True if every stage fits its device.
bool fits(const SplitProblem& problem, const std::vector<std::int64_t>& bounds);

// The memory of one stage of a split.
StageMemory split_memory(const SplitProblem& problem, const std::vector<std::int64_t>& bounds,
                         std::int64_t stage);

// What no split can beat, on the fastest device throughout: an equal share of the total time, the largest
// layer, and the larger of the two.
std::int64_t even_share_time(const SplitProblem& problem);
std::int64_t largest_layer_time(const SplitProblem& problem);
std::int64_t trivial_bound(const SplitProblem& problem);

}  // namespace pipeplan
