#pragma once

// What a misspelt cluster may have been meant to be.

#include <optional>
#include <string>

#include "models/base/spelling.hpp"

namespace pipeplan {

// The built-in cluster closest to `text`: its count with the nearest device type, so that "3xv100-16g"
// becomes "3xv100-16gb"; or the nearest of cluster_names().
std::optional<std::string> nearest_cluster_name(const std::string& text);

}  // namespace pipeplan
