#include "models/base/spelling.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace pipeplan {
namespace {

// Levenshtein, 1966: insertions, deletions and substitutions cost one each.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

}  // namespace

std::optional<std::string> nearest_spelling(std::string_view text, std::span<const std::string> candidates) {
  const auto closest = std::min_element(
      candidates.begin(), candidates.end(),
      [&](const auto& a, const auto& b) { return edit_distance(text, a) < edit_distance(text, b); });
  if (closest == candidates.end()) return std::nullopt;
  const std::size_t allowed = std::max<std::size_t>(1, closest->size() / 3);
  if (edit_distance(text, *closest) > allowed) return std::nullopt;
  return *closest;
}

}  // namespace pipeplan
