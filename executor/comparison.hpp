#pragma once

// Prediction against measurement: iteration, bubble, op times per stage, memory item by item, order of ops.
// The document is pipeplan.comparison/1.

#include <string>
#include <vector>

#include "models/base/json_file.hpp"
#include "simulator/timeline.hpp"

namespace pipeplan {

struct Compared {
  Nanoseconds predicted{}, measured{};
  // (predicted - measured) / measured; 0 where both are 0, 1 where only the measured is.
  [[nodiscard]] double error_fraction() const;
};

struct OpComparison {
  StageId stage;
  OpKind kind = OpKind::forward;
  Compared median;  // of the op's durations over the micro-batches
};

struct WorstOp {
  Op op;
  Compared duration;
};

struct RankComparison {
  MemoryUse predicted, measured;  // at the peak
  [[nodiscard]] bool equal() const { return predicted == measured; }
};

struct Comparison {
  Compared iteration;
  double predicted_bubble_fraction = 0, measured_bubble_fraction = 0;
  std::vector<OpComparison> ops;  // by stage, then kind
  std::vector<WorstOp> worst;     // up to five, the largest relative error of a duration first
  PerId<RankId, RankComparison> memory;
  // Pairs of ops next to each other on a rank in the prediction that the measurement ran in the other order.
  std::int64_t order_inversions = 0;
};

// Both timelines hold the same ops on the same ranks (a difference is a bug of the caller).
Comparison compare(const Timeline& simulated, const Timeline& measured);

// 1 - busy / (ranks * makespan).
double bubble_fraction(const Timeline& timeline);

Json to_json(const Comparison& comparison);

}  // namespace pipeplan
