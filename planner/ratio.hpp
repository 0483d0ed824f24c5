#pragma once

// A ratio as people write it, counted to nine decimals: products and quotients with it are exact integers
// rounded up, so 7 ns at speed 0.7 are 10 ns, and the parts of a sum never take less than the whole. (In
// binary fractions both fail.)

#include <cstdint>

namespace pipeplan {

class Ratio {
 public:
  // Kept within 10^-9 … 10^9, or 0.
  explicit Ratio(double value);

  // amount * ratio and amount / ratio, rounded up; amount >= 0. Results are cut at largest_ratio_result.
  [[nodiscard]] std::int64_t multiply_up(std::int64_t amount) const;
  [[nodiscard]] std::int64_t divide_up(std::int64_t amount) const;  // the ratio must not be 0

 private:
  std::int64_t billionths_;
};

// Several of them can be added in int64.
inline constexpr std::int64_t largest_ratio_result = std::int64_t{1} << 60;

}  // namespace pipeplan
