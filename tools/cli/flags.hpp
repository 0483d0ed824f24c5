#pragma once

// How values of flags are read beyond plain numbers: counts as ranges and lists, words with the nearest
// spelling on a slip, fractions as percent.

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/result.hpp"
#include "models/base/spelling.hpp"

namespace pipeplan {

// "4", "2,4,8", "1..4", "1..4,8": whole numbers of at least 1 in the order given, at most 4096 of them.
Result<std::vector<std::int64_t>> parse_counts(std::string_view text, std::string_view flag);

// "10%" or "0.1": 0 … 10.
Result<double> parse_fraction(std::string_view text, std::string_view flag);

// Text split at commas; no empty parts.
Result<std::vector<std::string>> parse_list(std::string_view text, std::string_view flag);

Error unknown_word(std::string_view flag, std::string_view text, const std::vector<std::string>& known);

template<class Enum>
Result<Enum> parse_word(std::string_view text, std::string_view flag) {
  if (const auto value = from_spelling<Enum>(text)) return *value;
  return Failure(unknown_word(flag, text, all_spellings<Enum>()));
}

// "naive|gpipe|1f1b", for help texts.
template<class Enum>
std::string word_choice() {
  std::string choice;
  for (const std::string& word : all_spellings<Enum>()) choice += (choice.empty() ? "" : "|") + word;
  return choice;
}

}  // namespace pipeplan
