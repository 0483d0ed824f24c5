#pragma once

// The quantities pipeplan computes with: time in whole nanoseconds, and distinct types for bytes,
// floating-point operations and bandwidth. All are int64; sums that could leave it are refused on input (see
// limits below).

#include <chrono>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "models/base/result.hpp"

namespace pipeplan {

using Nanoseconds = std::chrono::nanoseconds;

template<class Tag, class Rep = std::int64_t>
struct Quantity {
  Rep value = 0;

  friend auto operator<=>(const Quantity&, const Quantity&) = default;
  friend Quantity operator+(Quantity a, Quantity b) { return {a.value + b.value}; }
  friend Quantity operator-(Quantity a, Quantity b) { return {a.value - b.value}; }
  friend Quantity operator*(Quantity a, Rep factor) { return {a.value * factor}; }
  friend Quantity operator*(Rep factor, Quantity a) { return {a.value * factor}; }
  Quantity& operator+=(Quantity other) { return value += other.value, *this; }
  Quantity& operator-=(Quantity other) { return value -= other.value, *this; }
};

using Bytes = Quantity<struct BytesTag>;
using Flops = Quantity<struct FlopsTag>;
using BytesPerSecond = Quantity<struct BytesPerSecondTag>;

// Largest integer a document may hold (2^53 - 1: every JSON reader in the world agrees on it).
inline constexpr std::int64_t largest_document_integer = (std::int64_t{1} << 53) - 1;
// Largest total time pipeplan adds up: sum over layers times micro-batches (2^62 ns are 146 years).
inline constexpr Nanoseconds largest_total_time{std::int64_t{1} << 62};

// The time `bytes` need at `bandwidth`, rounded up to whole ns; computed in 128 bits, since bytes * 10^9
// leaves int64 at 9.2 GB. bandwidth > 0. A result beyond largest_total_time is cut to it.
Nanoseconds transfer_time(Bytes bytes, BytesPerSecond bandwidth);

// a * b, or nothing if it exceeds `limit`; both >= 0.
std::optional<std::int64_t> checked_product(std::int64_t a, std::int64_t b, std::int64_t limit);

// For people: "377.045 ms", "1.5 us", "12 ns"; "16.0 GiB", "512 B"; "300 GB/s".
std::string display(Nanoseconds time);
std::string display(Bytes bytes);
std::string display(BytesPerSecond bandwidth);

// From people, a unit suffix required: "5us" "1.5ms" "2s" "7ns"; "16GiB" "512KiB" "80GB" "64B"; "300GB/s".
// `what` names the flag or column in the error. Negative, NaN, infinite and too large values are refused.
Result<Nanoseconds> parse_time(std::string_view text, std::string_view what);
Result<Bytes> parse_bytes(std::string_view text, std::string_view what);
Result<BytesPerSecond> parse_bandwidth(std::string_view text, std::string_view what);

// A decimal number times `unit`, rounded to the nearest whole: the one way in which decimal times and sizes
// become integers. `text` must be a plain finite decimal >= 0 and the result at most 2^53 - 1.
Result<std::int64_t> parse_scaled(std::string_view text, std::int64_t unit, std::string_view what);

}  // namespace pipeplan
