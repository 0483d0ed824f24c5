#include "tools/cli/flags.hpp"

#include <fmt/ranges.h>

#include <charconv>

namespace pipeplan {
namespace {

constexpr std::size_t most_counts = 4096;

Result<std::int64_t> parse_count(std::string_view text, std::string_view flag) {
  std::int64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc{} || end != text.data() + text.size() || text.empty())
    return bad_usage(
        fmt::format("{} has '{}', wanted a whole number, a list (2,4,8) or a range (1..4)", flag, text));
  if (value < 1) return bad_usage(fmt::format("{} has {}, wanted at least 1", flag, value));
  return value;
}

Result<void> append_range(std::string_view part, std::string_view flag, std::vector<std::int64_t>& counts) {
  const std::size_t dots = part.find("..");
  PIPEPLAN_TRY(first, parse_count(part.substr(0, dots), flag));
  std::int64_t last = first;
  if (dots != std::string_view::npos) {
    PIPEPLAN_TRY(end, parse_count(part.substr(dots + 2), flag));
    last = end;
  }
  if (last < first)
    return bad_usage(fmt::format("{} has the range '{}', wanted the smaller end first", flag, part));
  if (static_cast<std::size_t>(last - first) + counts.size() >= most_counts)
    return bad_usage(fmt::format("{} names more than {} values", flag, most_counts));
  for (std::int64_t value = first; value <= last; ++value) counts.push_back(value);
  return {};
}

}  // namespace

Result<std::vector<std::string>> parse_list(std::string_view text, std::string_view flag) {
  std::vector<std::string> parts;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t comma = std::min(text.find(',', start), text.size());
    parts.emplace_back(text.substr(start, comma - start));
    if (parts.back().empty())
      return bad_usage(fmt::format("{} is '{}', which has an empty part", flag, text));
    start = comma + 1;
  }
  return parts;
}

Result<std::vector<std::int64_t>> parse_counts(std::string_view text, std::string_view flag) {
  PIPEPLAN_TRY(parts, parse_list(text, flag));
  std::vector<std::int64_t> counts;
  for (const std::string& part : parts) PIPEPLAN_CHECK(append_range(part, flag, counts));
  return counts;
}

Result<double> parse_fraction(std::string_view text, std::string_view flag) {
  const bool percent = text.ends_with('%');
  std::string_view number = text;
  if (percent) number.remove_suffix(1);
  double value = 0;
  const auto [end, status] = std::from_chars(number.data(), number.data() + number.size(), value);
  const bool whole = status == std::errc{} && end == number.data() + number.size();
  if (percent) value /= 100;
  if (!whole || !(value >= 0 && value <= 10))
    return bad_usage(fmt::format("{} is '{}', wanted a fraction such as 10% or 0.1", flag, text));
  return value;
}

Error unknown_word(std::string_view flag, std::string_view text, const std::vector<std::string>& known) {
  const auto nearest = nearest_spelling(text, known);
  return {ErrorCode::bad_usage,
          fmt::format("{} is '{}', wanted one of {}", flag, text, fmt::join(known, ", ")),
          {},
          nearest ? fmt::format("did you mean '{}'?", *nearest) : ""};
}

}  // namespace pipeplan
