#pragma once

// The answer that nothing fits: which stage is the tightest in the split that needs the least, and how much
// memory would do. The document is pipeplan.infeasible/1.

#include "planner/planner.hpp"

namespace pipeplan {

// `bounds` is the split that needs the least memory, `smallest_memory` what every device must have for it.
Infeasible explain_infeasible(const SplitProblem& problem, const std::vector<std::int64_t>& bounds,
                              Bytes smallest_memory);

// `profile` names the model and the layers.
Json infeasible_json(const Infeasible& infeasible, const Profile& profile);

}  // namespace pipeplan
