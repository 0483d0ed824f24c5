#pragma once

// One line of a CSV file as its cells (RFC 4180): cells may stand in quotes, where "" is a quote and a comma
// is a comma. Blanks around a cell do not count, blanks inside of quotes do. A cell cannot go on in the next
// line.

#include <string>
#include <string_view>
#include <vector>

#include "models/base/result.hpp"

namespace pipeplan {

// `place` is where errors say the line is.
Result<std::vector<std::string>> csv_cells(std::string_view line, const std::string& place);

}  // namespace pipeplan
