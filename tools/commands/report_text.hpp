#pragma once

// A report for people: the bubble by each definition, closed form beside it, a row per rank, memory item by
// item.

#include <string>

#include "simulator/report.hpp"

namespace pipeplan {

std::string report_text(const Report& report);

}  // namespace pipeplan
