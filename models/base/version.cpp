#include "models/base/version.hpp"

namespace pipeplan {

std::string version() { return PIPEPLAN_VERSION; }

}  // namespace pipeplan
