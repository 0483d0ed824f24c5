#pragma once

// Where the reference data and the cases from the field lie: PIPEPLAN_DATA and PIPEPLAN_CASES, by default
// beside the source tree. Tests that need them sit in the suite "reference".

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

namespace pipeplan::test {

inline std::filesystem::path folder_from(const char* variable, const char* otherwise) {
  const char* value = std::getenv(variable);
  return value != nullptr ? std::filesystem::path(value)
                          : std::filesystem::path(PIPEPLAN_DEFAULT_SHARED) / otherwise;
}

inline std::filesystem::path data_folder() { return folder_from("PIPEPLAN_DATA", "data"); }
inline std::filesystem::path case_folder() { return folder_from("PIPEPLAN_CASES", "cases"); }

// True if both are there.
inline bool reference_data() {
  return std::filesystem::is_directory(data_folder()) && std::filesystem::is_directory(case_folder());
}

}  // namespace pipeplan::test
