#include "tests/support/reference.hpp"

#include <cstdlib>

namespace pipeplan::test {
namespace {

std::filesystem::path folder_from(const char* variable, const char* otherwise) {
  const char* value = std::getenv(variable);
  return value != nullptr ? std::filesystem::path(value)
                          : source_folder().parent_path() / "shared" / otherwise;
}

}  // namespace

std::filesystem::path source_folder() { return PIPEPLAN_SOURCE_DIR; }
std::filesystem::path data_folder() { return folder_from("PIPEPLAN_DATA", "data"); }
std::filesystem::path case_folder() { return folder_from("PIPEPLAN_CASES", "cases"); }

bool reference_data() {
  return std::filesystem::is_directory(data_folder()) && std::filesystem::is_directory(case_folder());
}

}  // namespace pipeplan::test
