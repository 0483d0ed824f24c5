#pragma once

// A plan for people: a row per stage, then what was reached and proved.

#include <string>

#include "planner/cost.hpp"
#include "planner/planner.hpp"

namespace pipeplan {

// `costs` are the plan's own.
std::string plan_table(const Plan& plan, const PipelineCosts& costs);

// Why no plan fits, in sentences.
std::string infeasible_text(const Infeasible& infeasible, const Profile& profile);

// Why each item of memory is there: "weights 96.0 MiB + gradients 96.0 MiB + activations 12.0 MiB"; zero
// items left out.
std::string memory_items(const MemoryUse& use);

}  // namespace pipeplan
