#pragma once

// A plan made for other measurements is a common accident: verbs that use a plan with a profile ask here
// first.

#include "planner/plan.hpp"
#include "tools/cli/terminal.hpp"

namespace pipeplan {

// Refuses a plan whose digest is not that of the profile; with `force` a warning is all.
Result<void> check_freshness(const Plan& plan, const Profile& profile, bool force, const Terminal& terminal);

}  // namespace pipeplan
