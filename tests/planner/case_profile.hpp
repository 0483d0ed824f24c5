#pragma once

// Cases from the field as inputs of the planner. Their times are in microseconds, their sizes in bytes.

#include <string>

#include "models/base/json_file.hpp"
#include "profiler/profile.hpp"

namespace pipeplan::test {

// The case whose file name begins with `number`, as in "07".
Json read_case(const std::string& number);

// The profile of the case's "layers" or "layers_repeat", with its "edges" if it has any; outputs are left at
// 0 where `with_outputs` is false: the cases' memory rule knows no receive buffers.
Result<Profile> case_profile(const Json& input, bool with_outputs);

}  // namespace pipeplan::test
