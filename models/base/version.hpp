#pragma once

// The version of pipeplan, which documents carry and --version prints.

#include <string>

namespace pipeplan {

std::string version();

}  // namespace pipeplan
