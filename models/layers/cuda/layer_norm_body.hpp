#pragma once

// Bodies of layer norm, a team per row: see kernel_body.hpp.

#include "models/layers/cuda/kernel_body.hpp"

namespace pipeplan {

struct LayerNormRow {
  const float* gain;
  const float* offset;
  float* values;  // normalised in place: each member reads and writes its own share alone
  float* deviations;
  float* output;
  std::int64_t width;

  template<class Team>
  PIPEPLAN_DEVICE void operator()(Team& team, std::int64_t row) const {
    float* x = values + row * width;
    float* y = output + row * width;
    const auto scalars = static_cast<float>(width);
    const float mean = shared_sum(team, width, [&](std::int64_t i) { return x[i]; }) / scalars;
    const auto square = [&](std::int64_t i) { return (x[i] - mean) * (x[i] - mean); };
    // The 1e-5 keeps a row of equal values finite.
    const float deviation = sqrtf(shared_sum(team, width, square) / scalars + 1e-5F);
    share_out(team, width, [&](std::int64_t i) {
      x[i] = (x[i] - mean) / deviation;
      y[i] = x[i] * gain[i] + offset[i];
    });
    if (team.rank() == 0) deviations[row] = deviation;
  }
};

struct LayerNormBackwardRow {
  const float* gain;
  const float* values;
  const float* deviations;
  const float* grad_output;
  float* grad_input;
  std::int64_t width;

  template<class Team>
  PIPEPLAN_DEVICE void operator()(Team& team, std::int64_t row) const {
    const float* n = values + row * width;
    const float* dy = grad_output + row * width;
    float* dx = grad_input + row * width;
    const auto scalars = static_cast<float>(width);
    const auto scaled = [&](std::int64_t i) { return dy[i] * gain[i]; };
    const float mean = shared_sum(team, width, scaled) / scalars;
    const float along = shared_sum(team, width, [&](std::int64_t i) { return scaled(i) * n[i]; }) / scalars;
    const float deviation = deviations[row];
    share_out(team, width, [&](std::int64_t i) { dx[i] = (scaled(i) - mean - n[i] * along) / deviation; });
  }
};

}  // namespace pipeplan
