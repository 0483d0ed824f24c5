#pragma once

// Bodies of the losses, a team per row: see kernel_body.hpp.

#include "models/layers/cuda/kernel_body.hpp"

namespace pipeplan {

struct CrossEntropyRow {
  float* values;  // scores to probabilities
  const float* targets;
  float* row_losses;
  std::int64_t width;

  template<class Team>
  PIPEPLAN_DEVICE void operator()(Team& team, std::int64_t row) const {
    float* x = values + row * width;
    const float wanted = x[checked_id(targets[row], width)];
    float own = x[0];
    share_out(team, width, [&](std::int64_t i) { own = fmaxf(own, x[i]); });
    const float largest = team.largest(own);
    const float sum = shared_sum(team, width, [&](std::int64_t i) {
      x[i] = expf(x[i] - largest);
      return x[i];
    });
    share_out(team, width, [&](std::int64_t i) { x[i] /= sum; });
    if (team.rank() == 0) row_losses[row] = largest + logf(sum) - wanted;
  }
};

struct CrossEntropyBackwardRow {
  const float* probabilities;
  const float* targets;
  const float* grad_loss;
  float* grad_input;
  std::int64_t rows, width;

  template<class Team>
  PIPEPLAN_DEVICE void operator()(const Team& team, std::int64_t row) const {
    const float factor = *grad_loss / static_cast<float>(rows);
    const std::int64_t target = checked_id(targets[row], width);
    const float* p = probabilities + row * width;
    float* dx = grad_input + row * width;
    share_out(team, width, [&](std::int64_t i) { dx[i] = p[i] * factor - (i == target ? factor : 0.0F); });
  }
};

struct SquaredErrorRow {
  const float* values;
  const float* targets;
  float* row_losses;
  std::int64_t width;

  template<class Team>
  PIPEPLAN_DEVICE void operator()(Team& team, std::int64_t row) const {
    const float* x = values + row * width;
    const float* target = targets + row * width;
    const auto square = [&](std::int64_t i) { return (x[i] - target[i]) * (x[i] - target[i]); };
    const float sum = shared_sum(team, width, square);
    if (team.rank() == 0) row_losses[row] = sum;
  }
};

// One scalar.
struct SquaredErrorBackward {
  const float* values;
  const float* targets;
  const float* grad_loss;
  float* grad_input;
  std::int64_t count;

  PIPEPLAN_DEVICE void operator()(std::int64_t i) const {
    grad_input[i] = (values[i] - targets[i]) * (2 * *grad_loss / static_cast<float>(count));
  }
};

// The work of one team on all rows' losses.
struct MeanLoss {
  const float* row_losses;
  float* mean;
  std::int64_t rows, count;

  template<class Team>
  PIPEPLAN_DEVICE void operator()(Team& team, std::int64_t) const {
    const auto loss = [&](std::int64_t row) { return static_cast<double>(row_losses[row]); };
    const double sum = shared_sum<double>(team, rows, loss);
    if (team.rank() == 0) *mean = static_cast<float>(sum / static_cast<double>(count));
  }
};

}  // namespace pipeplan
