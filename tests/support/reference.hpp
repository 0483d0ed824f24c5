#pragma once

// Where the reference data, the cases from the field and the source tree lie: PIPEPLAN_DATA and
// PIPEPLAN_CASES, by default beside the source tree. Tests that need them sit in the suite "reference".

#include <filesystem>

namespace pipeplan::test {

std::filesystem::path data_folder();
std::filesystem::path case_folder();
std::filesystem::path source_folder();

// True if data and cases are there.
bool reference_data();

}  // namespace pipeplan::test
