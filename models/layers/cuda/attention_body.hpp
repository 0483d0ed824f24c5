#pragma once

// Bodies of attention between its matrix products, a team per row: see kernel_body.hpp.

#include "models/layers/cuda/kernel_body.hpp"

namespace pipeplan {

// Where a scalar of a joined row stands when heads are split: kernels.hpp has the layout. A row is short
// enough for 32 bits, in which the device divides faster.
struct HeadLayout {
  std::int64_t rows, length;
  std::int32_t width, head_width;

  PIPEPLAN_DEVICE std::int64_t split_place(std::int64_t row, std::int32_t column) const {
    const std::int32_t part = column / width, within = column % width;
    const std::int32_t head = within / head_width, scalar = within % head_width;
    const std::int64_t head_count = width / head_width;
    const std::int64_t matrix = row / length * head_count + head;
    return part * rows * width + (matrix * length + row % length) * head_width + scalar;
  }
};

struct SplitHeadsRow {
  HeadLayout layout;
  std::int64_t columns;
  const float* joined;
  float* split;

  template<class Team>
  PIPEPLAN_DEVICE void operator()(const Team& team, std::int64_t row) const {
    const float* from = joined + row * columns;
    share_out(team, columns, [&](std::int64_t column) {
      split[layout.split_place(row, static_cast<std::int32_t>(column))] = from[column];
    });
  }
};

struct JoinHeadsRow {
  HeadLayout layout;
  std::int64_t columns;
  const float* split;
  float* joined;

  template<class Team>
  PIPEPLAN_DEVICE void operator()(const Team& team, std::int64_t row) const {
    float* to = joined + row * columns;
    share_out(team, columns, [&](std::int64_t column) {
      to[column] = split[layout.split_place(row, static_cast<std::int32_t>(column))];
    });
  }
};

// Row `row` of all matrices; it sees the columns up to its number in its matrix.
struct CausalSoftmaxRow {
  float* scores;
  float scale;
  std::int64_t length;

  template<class Team>
  PIPEPLAN_DEVICE void operator()(Team& team, std::int64_t row) const {
    float* x = scores + row * length;
    const std::int64_t seen = row % length + 1;
    float own = x[0];
    share_out(team, seen, [&](std::int64_t i) { own = fmaxf(own, x[i]); });
    const float largest = team.largest(own);
    const float sum = shared_sum(team, seen, [&](std::int64_t i) {
      x[i] = expf((x[i] - largest) * scale);
      return x[i];
    });
    share_out(team, length, [&](std::int64_t i) { x[i] = i < seen ? x[i] / sum : 0.0F; });
  }
};

struct CausalSoftmaxBackwardRow {
  const float* probabilities;
  float* gradients;
  float scale;
  std::int64_t length;

  template<class Team>
  PIPEPLAN_DEVICE void operator()(Team& team, std::int64_t row) const {
    const float* p = probabilities + row * length;
    float* gradient = gradients + row * length;
    const std::int64_t seen = row % length + 1;
    const float along = shared_sum(team, seen, [&](std::int64_t i) { return gradient[i] * p[i]; });
    share_out(team, length,
              [&](std::int64_t i) { gradient[i] = i < seen ? p[i] * (gradient[i] - along) * scale : 0.0F; });
  }
};

}  // namespace pipeplan
