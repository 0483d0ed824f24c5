#pragma once

// What a planner's user should know of a finished plan: each warning with the number that raised it and what
// to try.

#include <vector>

#include "models/base/warning.hpp"
#include "planner/planner.hpp"

namespace pipeplan {

// `problem` is the question that `plan` answers.
std::vector<Warning> plan_warnings(const Plan& plan, const Profile& profile, const SplitProblem& problem);

}  // namespace pipeplan
