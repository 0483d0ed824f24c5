#pragma once

// What a run gave, beside what was predicted: for people and as a document.

#include <optional>
#include <string>

#include "executor/comparison.hpp"
#include "executor/executor.hpp"

namespace pipeplan {

enum class Verdict { within_tolerance, outside_tolerance, not_judged };

constexpr auto spellings(Verdict) {
  return std::to_array<Spelling<Verdict>>({{Verdict::within_tolerance, "within tolerance"},
                                           {Verdict::outside_tolerance, "outside tolerance"},
                                           {Verdict::not_judged, "not judged"}});
}

struct RunOutcome {
  Execution execution;
  // Of the median iteration; absent where a checkpoint had all iterations already.
  std::optional<Comparison> comparison;
  std::optional<Equivalence> equivalence;  // absent where it was not asked for or nothing was trained
  Closeness wanted_closeness;
  std::optional<double> tolerance;
  bool shares_cores = false;
  bool profile_is_clean = true;  // as its own load guard said

  // Times are judged only if a tolerance was given, the machine was quiet both times and every stage had a
  // core.
  [[nodiscard]] Verdict verdict() const;
  [[nodiscard]] bool failed() const;
};

std::string run_text(const RunOutcome& outcome);
// The comparison document with the run's own keys beside it.
Json run_json(const RunOutcome& outcome);

}  // namespace pipeplan
