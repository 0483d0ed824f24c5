#pragma once

// Bodies of the embedding: see kernel_body.hpp. The backward needs no atomics: of all rows with the same
// token the first one's team adds them all, in the order of the rows, which is the CPU's order.

#include "models/layers/cuda/kernel_body.hpp"

namespace pipeplan {

struct EmbeddingRow {
  const float* ids;
  const float* tokens;
  const float* positions;
  float* output;
  std::int64_t rows_per_sample, vocabulary, width;

  template<class Team>
  PIPEPLAN_DEVICE void operator()(const Team& team, std::int64_t row) const {
    const float* token = tokens + checked_id(ids[row], vocabulary) * width;
    const float* position = positions + row % rows_per_sample * width;
    float* y = output + row * width;
    share_out(team, width, [&](std::int64_t i) { y[i] = token[i] + position[i]; });
  }
};

struct TokenGradientRow {
  const float* ids;
  const float* grad_output;
  float* grad_tokens;
  std::int64_t rows, vocabulary, width;

  template<class Team>
  PIPEPLAN_DEVICE void operator()(Team& team, std::int64_t row) const {
    const float id = ids[row];
    if (is_seen_before(team, row, id)) return;
    float* gradient = grad_tokens + checked_id(id, vocabulary) * width;
    for (std::int64_t first = row; first < rows; first += team.size()) add_rows(team, first, id, gradient);
  }

 private:
  template<class Team>
  PIPEPLAN_DEVICE bool is_seen_before(Team& team, std::int64_t row, float id) const {
    bool seen = false;
    share_out(team, row, [&](std::int64_t before) { seen = seen || ids[before] == id; });
    return team.any(seen);
  }

  // Those of the team.size() rows from `first` on that have this id. Members look at a row each, then add all
  // that were found, each in columns of its own.
  template<class Team>
  PIPEPLAN_DEVICE void add_rows(Team& team, std::int64_t first, float id, float* gradient) const {
    const std::int64_t mine = first + team.rank();
    const bool found = mine < rows && ids[mine] == id;
    team.flags()[team.rank()] = found;
    if (!team.any(found)) return;
    share_out(team, width, [&](std::int64_t column) {
      float sum = gradient[column];
      for (std::int64_t i = 0; i < team.size(); ++i)
        if (team.flags()[i]) sum += grad_output[(first + i) * width + column];
      gradient[column] = sum;
    });
    team.barrier();  // all have read the flags before anyone sets them again
  }
};

// One scalar of the positions' gradients, over all samples.
struct PositionGradient {
  const float* grad_output;
  float* grad_positions;
  std::int64_t sample_count, sample_width;

  PIPEPLAN_DEVICE void operator()(std::int64_t i) const {
    float sum = grad_positions[i];
    for (std::int64_t sample = 0; sample < sample_count; ++sample)
      sum += grad_output[sample * sample_width + i];
    grad_positions[i] = sum;
  }
};

}  // namespace pipeplan
