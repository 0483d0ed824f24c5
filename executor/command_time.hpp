#pragma once

// How long a command takes by the costs of its stage, on devices that only pass time.

#include "executor/program.hpp"
#include "planner/cost.hpp"

namespace pipeplan {

// Sends take none of their sender's time: see pass_link.
Nanoseconds command_time(const Command& command, const PipelineCosts& costs);

// The boundary that a send crosses, between stage i and i+1.
std::size_t crossed_boundary(const Op& sent);

// Stages of `rank`, ascending.
std::vector<StageId> stages_of_rank(const Program& program, RankId rank);

}  // namespace pipeplan
