#include "planner/ratio.hpp"

#include <algorithm>
#include <limits>

#include "models/base/assert.hpp"

namespace pipeplan {
namespace {

__extension__ using Wide = __int128;

constexpr std::int64_t billion = 1'000'000'000;

// amount * numerator / denominator, rounded up; in 64 bits where they suffice, since this is the planner's
// inner loop.
std::int64_t scaled_up(std::int64_t amount, std::int64_t numerator, std::int64_t denominator) {
  if (numerator == 0) return 0;
  if (amount <= (std::numeric_limits<std::int64_t>::max() - denominator) / numerator)
    return std::min((amount * numerator + denominator - 1) / denominator, largest_ratio_result);
  const Wide quotient = (static_cast<Wide>(amount) * numerator + denominator - 1) / denominator;
  return static_cast<std::int64_t>(std::min<Wide>(quotient, largest_ratio_result));
}

}  // namespace

Ratio::Ratio(double value) : billionths_(0) {
  PIPEPLAN_ASSERT(value >= 0);
  const auto nearest = static_cast<std::int64_t>(std::min(value, 1e9) * 1e9 + 0.5);
  if (value > 0) billionths_ = std::max(std::int64_t{1}, nearest);
}

std::int64_t Ratio::multiply_up(std::int64_t amount) const {
  if (billionths_ == billion) return amount;
  return scaled_up(amount, billionths_, billion);
}

std::int64_t Ratio::divide_up(std::int64_t amount) const {
  PIPEPLAN_ASSERT(billionths_ > 0);
  if (billionths_ == billion) return amount;
  return scaled_up(amount, billion, billionths_);
}

}  // namespace pipeplan
