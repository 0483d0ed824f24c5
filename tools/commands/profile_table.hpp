#pragma once

// A profile for people: a row per layer at its largest profiled micro-batch size, and the totals.

#include <string>

#include "profiler/profile.hpp"

namespace pipeplan {

std::string profile_table(const Profile& profile);

}  // namespace pipeplan
