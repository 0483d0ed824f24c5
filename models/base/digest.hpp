#pragma once

// A digest tells whether two documents mean the same: XXH3 (64 bit) of the canonical JSON, without comments.

#include <string>
#include <string_view>

#include "models/base/json_file.hpp"

namespace pipeplan {

// "xxh3:" and 16 hexadecimal digits; equal for values that differ only in comments.
std::string digest(const Json& json);

// The same form over bytes as they are.
std::string digest_of_bytes(std::string_view bytes);

}  // namespace pipeplan
