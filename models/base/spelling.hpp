#pragma once

// One table per enumeration says how its values are spelt in documents, flags and reports, so that all of
// them agree. A type takes part by an overload `constexpr auto spellings(Type)` that returns an array of
// Spelling<Type>.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/assert.hpp"

namespace pipeplan {

template<class Enum>
struct Spelling {
  Enum value;
  std::string_view text;
};

template<class Enum>
std::string_view spelt(Enum value) {
  for (const auto& entry : spellings(Enum{}))
    if (entry.value == value) return entry.text;
  PIPEPLAN_UNREACHABLE("an enumerator without a spelling");
}

template<class Enum>
std::optional<Enum> from_spelling(std::string_view text) {
  for (const auto& entry : spellings(Enum{}))
    if (entry.text == text) return entry.value;
  return std::nullopt;
}

template<class Enum>
std::vector<std::string> all_spellings() {
  std::vector<std::string> texts;
  for (const auto& entry : spellings(Enum{})) texts.emplace_back(entry.text);
  return texts;
}

// The candidate closest to `text` by edit distance, if it is close enough to be a typing slip (a third of its
// length, at least one edit).
std::optional<std::string> nearest_spelling(std::string_view text, std::span<const std::string> candidates);

}  // namespace pipeplan
