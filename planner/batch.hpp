#pragma once

// How a global batch is cut into micro-batches: micro_batch_size * micro_batch_count * data_parallel =
// global_batch, any of the first, second and last given or left open. A contradiction is refused with the
// values nearest to the request that would work.

#include <cstdint>

#include "models/base/result.hpp"
#include "planner/planner.hpp"

namespace pipeplan {

struct Batch {
  std::int64_t micro_batch_size = 1;
  std::int64_t micro_batch_count = 1;
  friend bool operator==(const Batch&, const Batch&) = default;
};

// Open size: the smallest profiled that divides the global batch, or the smallest profiled. Open count: what
// the global batch gives, or four for each of `stages`. Of several copies of the pipeline each takes an equal
// share of the global batch.
Result<Batch> choose_batch(const Profile& profile, const PlanOptions& options, std::int64_t stages);

}  // namespace pipeplan
