#pragma once

// Bodies on vectors and on the columns of matrices: see kernel_body.hpp.

#include "models/layers/arithmetic.hpp"
#include "models/layers/cuda/kernel_body.hpp"

namespace pipeplan {

struct Fill {
  float* place;
  float value;
  PIPEPLAN_DEVICE void operator()(std::int64_t i) const { place[i] = value; }
};

struct Add {
  const float* from;
  float* to;
  PIPEPLAN_DEVICE void operator()(std::int64_t i) const { to[i] += from[i]; }
};

struct SgdStep {
  SgdUpdate update;
  float* parameters;
  float* gradients;
  PIPEPLAN_DEVICE void operator()(std::int64_t i) const {
    update(parameters[i], gradients[i]);
    gradients[i] = 0;
  }
};

struct MomentumStep {
  MomentumUpdate update;
  float* parameters;
  float* gradients;
  float* velocities;
  PIPEPLAN_DEVICE void operator()(std::int64_t i) const {
    update(parameters[i], gradients[i], velocities[i]);
    gradients[i] = 0;
  }
};

struct SquareRoot {
  PIPEPLAN_BOTH_SIDES float operator()(float value) const { return sqrtf(value); }
};

struct AdamStep {
  AdamUpdate update;
  float* parameters;
  float* gradients;
  float* firsts;
  float* seconds;
  PIPEPLAN_DEVICE void operator()(std::int64_t i) const {
    update(parameters[i], gradients[i], firsts[i], seconds[i], SquareRoot{});
    gradients[i] = 0;
  }
};

// One row of a matrix.
struct RepeatRow {
  const float* row;
  float* matrix;
  std::int64_t columns;
  template<class Team>
  PIPEPLAN_DEVICE void operator()(const Team& team, std::int64_t number) const {
    float* to = matrix + number * columns;
    share_out(team, columns, [&](std::int64_t column) { to[column] = row[column]; });
  }
};

// What is summed over the rows of a column.
struct Entry {
  const float* matrix;
  PIPEPLAN_DEVICE float operator()(std::int64_t i) const { return matrix[i]; }
};
struct EntryProduct {
  const float* left;
  const float* right;
  PIPEPLAN_DEVICE float operator()(std::int64_t i) const { return left[i] * right[i]; }
};

// So many lanes share a column: lane l takes the rows l, l + column_lanes and so on, and the lanes' sums are
// then added in the order of their numbers.
constexpr int column_lanes = 32;

template<class Value>
PIPEPLAN_DEVICE float lane_sum(Value value, std::int64_t rows, std::int64_t columns, std::int64_t column,
                               int lane) {
  float sum = 0;
  for (std::int64_t row = lane; row < rows; row += column_lanes) sum += value(row * columns + column);
  return sum;
}

// `sums`: the lanes' own, `stride` apart.
PIPEPLAN_DEVICE inline float sum_of_lanes(const float* sums, int stride) {
  float sum = 0;
  for (int lane = 0; lane < column_lanes; ++lane) sum += sums[lane * stride];
  return sum;
}

}  // namespace pipeplan
