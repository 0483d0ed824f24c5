#include "models/base/units.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <span>

#include "models/base/assert.hpp"

namespace pipeplan {
namespace {

__extension__ using Wide = __int128;

struct Unit {
  std::string_view suffix;
  std::int64_t factor;
};

constexpr std::array<Unit, 5> time_units{
    {{"ns", 1}, {"us", 1'000}, {"ms", 1'000'000}, {"s", 1'000'000'000}, {"min", 60'000'000'000}}};

constexpr std::array<Unit, 9> byte_units{{{"B", 1},
                                          {"KB", 1'000},
                                          {"MB", 1'000'000},
                                          {"GB", 1'000'000'000},
                                          {"TB", 1'000'000'000'000},
                                          {"KiB", std::int64_t{1} << 10},
                                          {"MiB", std::int64_t{1} << 20},
                                          {"GiB", std::int64_t{1} << 30},
                                          {"TiB", std::int64_t{1} << 40}}};

std::string suffix_list(std::span<const Unit> units, std::string_view tail) {
  std::string list;
  for (const Unit& unit : units) list += fmt::format("{}{}{}", list.empty() ? "" : ", ", unit.suffix, tail);
  return list;
}

Result<std::int64_t> parse_with_unit(std::string_view text, std::string_view what,
                                     std::span<const Unit> units, std::string_view tail) {
  const std::size_t digits_end = text.find_first_not_of("0123456789.");
  const std::string_view number = text.substr(0, digits_end);
  std::string_view suffix = digits_end == std::string_view::npos ? "" : text.substr(digits_end);
  if (!suffix.ends_with(tail) || suffix.size() == tail.size()) suffix = "";
  suffix.remove_suffix(suffix.empty() ? 0 : tail.size());
  for (const Unit& unit : units)
    if (unit.suffix == suffix) return parse_scaled(number, unit.factor, what);
  return bad_usage(
      fmt::format("{} is '{}', wanted a number with a unit ({})", what, text, suffix_list(units, tail)),
      fmt::format("write for example {} 5{}{}", what, units[1].suffix, tail));
}

std::string trimmed(double value, std::string_view unit) {
  std::string digits = fmt::format("{:.3f}", value);
  digits.erase(digits.find_last_not_of('0') + 1);
  if (digits.back() == '.') digits.pop_back();
  return fmt::format("{} {}", digits, unit);
}

}  // namespace

Nanoseconds transfer_time(Bytes bytes, BytesPerSecond bandwidth) {
  PIPEPLAN_ASSERT(bytes.value >= 0 && bandwidth.value > 0);
  const Wide scaled = Wide{bytes.value} * 1'000'000'000 + (bandwidth.value - 1);
  const Wide time = scaled / bandwidth.value;
  return time > largest_total_time.count() ? largest_total_time
                                           : Nanoseconds{static_cast<std::int64_t>(time)};
}

std::optional<std::int64_t> checked_product(std::int64_t a, std::int64_t b, std::int64_t limit) {
  PIPEPLAN_ASSERT(a >= 0 && b >= 0);
  const Wide product = Wide{a} * b;
  if (product > limit) return std::nullopt;
  return static_cast<std::int64_t>(product);
}

std::string display(Nanoseconds time) {
  const auto ns = static_cast<double>(time.count());
  if (std::abs(ns) < 1e3) return fmt::format("{} ns", time.count());
  if (std::abs(ns) < 1e6) return trimmed(ns / 1e3, "us");
  if (std::abs(ns) < 1e9) return trimmed(ns / 1e6, "ms");
  return trimmed(ns / 1e9, "s");
}

std::string display(Bytes bytes) {
  static constexpr std::array<std::string_view, 5> names{"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes.value);
  std::size_t step = 0;
  while (std::abs(value) >= 1024 && step + 1 < names.size()) value /= 1024, ++step;
  return step == 0 ? fmt::format("{} B", bytes.value) : fmt::format("{:.1f} {}", value, names[step]);
}

std::string display(BytesPerSecond bandwidth) {
  return trimmed(static_cast<double>(bandwidth.value) / 1e9, "GB/s");
}

Result<Nanoseconds> parse_time(std::string_view text, std::string_view what) {
  PIPEPLAN_TRY(value, parse_with_unit(text, what, time_units, ""));
  return Nanoseconds{value};
}

Result<Bytes> parse_bytes(std::string_view text, std::string_view what) {
  PIPEPLAN_TRY(value, parse_with_unit(text, what, byte_units, ""));
  return Bytes{value};
}

Result<BytesPerSecond> parse_bandwidth(std::string_view text, std::string_view what) {
  PIPEPLAN_TRY(value, parse_with_unit(text, what, byte_units, "/s"));
  if (value == 0) return bad_usage(fmt::format("{} is 0, wanted more than 0", what));
  return BytesPerSecond{value};
}

Result<std::int64_t> parse_scaled(std::string_view text, std::int64_t unit, std::string_view what) {
  long double number = 0;
  double parsed = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), parsed);
  number = parsed;
  const bool whole_text = status == std::errc{} && end == text.data() + text.size() && !text.empty();
  if (!whole_text || !std::isfinite(parsed))
    return bad_input({}, fmt::format("{} is '{}', wanted a finite number", what, text));
  if (parsed < 0) return bad_input({}, fmt::format("{} is {}, wanted at least 0", what, text));
  const long double scaled = std::round(number * static_cast<long double>(unit));
  if (scaled > static_cast<long double>(largest_document_integer))
    return bad_input({},
                     fmt::format("{} is {}, too large (at most 2^53-1 in its smallest unit)", what, text));
  return static_cast<std::int64_t>(scaled);
}

}  // namespace pipeplan
