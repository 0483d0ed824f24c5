#pragma once

// How the SMs of a GPU are shared out among green contexts. A driver hands them out in groups of a fixed
// size (8 SMs on Hopper), a context takes any number of groups. Arithmetic alone: no GPU is asked.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/base/result.hpp"

namespace pipeplan {

struct SmGroups {
  std::int64_t count = 0;       // groups the device falls into; SMs left over belong to none
  std::int64_t sms_each = 0;    // SMs in a group
  std::int64_t device_sms = 0;  // SMs in all, for messages
};

// Groups for each request. A number of SMs is rounded down to whole groups; requests without one get an equal
// share of the groups that are then left, at least one each. Refused: a number below one group, and requests
// that do not fit together; `where` names the device.
Result<std::vector<std::int64_t>> split_groups(const SmGroups& groups,
                                               std::span<const std::optional<std::int64_t>> sm_counts,
                                               const std::string& where);

}  // namespace pipeplan
