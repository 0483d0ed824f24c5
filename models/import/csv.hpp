#pragma once

// Reads a table of layers from CSV (RFC 4180 quoting), for anyone with a spreadsheet: one row per layer, in
// order, a chain. Columns are found by name: name, kind, forward_*, backward_* or backward_input_* and
// backward_weight_*, parameter_*, activation_*, output_*; the star is a unit (_ns _us _ms _s for times;
// _bytes _kib _mib _gib for sizes). A column without its unit is refused; so are unknown and doubled columns.
// name, forward and backward are required, the rest is 0 where it has no column. A cell cannot go on in the
// next line; blank lines and a byte-order mark do not matter.

#include <string>
#include <string_view>

#include "models/import/imported_model.hpp"

namespace pipeplan {

Result<ImportedModel> import_csv(std::string_view text, const std::string& source);

}  // namespace pipeplan
