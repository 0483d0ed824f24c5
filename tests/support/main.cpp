// The main of every test program: doctest's, and two rules more. A filter that matches no test fails, and
// --needs-reference-data skips (exit 77) where the reference data is missing.

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <string_view>

#include "tests/support/reference.hpp"

namespace {

unsigned matched_tests = 0;

struct CountMatches : doctest::IReporter {
  explicit CountMatches(const doctest::ContextOptions&) {}
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats& stats) override {
    matched_tests = stats.numTestCasesPassingFilters;
  }
  void test_case_start(const doctest::TestCaseData&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};

REGISTER_LISTENER("count_matches", 1, CountMatches);

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) != "--needs-reference-data" || pipeplan::test::reference_data()) continue;
    std::printf("skipped: no reference data (set PIPEPLAN_DATA and PIPEPLAN_CASES)\n");
    return 77;
  }
  doctest::Context context(argc, argv);
  const int result = context.run();
  if (result == 0 && !context.shouldExit() && matched_tests == 0) {
    std::printf("no test matches the filter\n");
    return 1;
  }
  return result;
}
