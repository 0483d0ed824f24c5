#include "planner/chain_dp.hpp"

#include <algorithm>
#include <optional>

#include "models/base/assert.hpp"
#include "planner/chain_table.hpp"

namespace pipeplan {
namespace {

// The smallest limit that can be kept. `reached` says what a limit comes to in fact, at most the limit
// itself, or nothing if it cannot be kept; `least` is a lower bound, `known` a limit that can be kept. The
// lower bound is often the answer, so it is tried first.
template<class Reached>
std::int64_t smallest_limit(std::int64_t least, std::int64_t known, const Reached& reached) {
  for (std::int64_t tried = least; least < known; tried = least + (known - least) / 2) {
    if (const std::optional<std::int64_t> value = reached(tried))
      known = *value;
    else
      least = tried + 1;
  }
  return known;
}

std::int64_t smallest_time(ChainTable& table, const WindowCosts& costs, std::int64_t least,
                           std::int64_t known) {
  return smallest_limit(least, known, [&](std::int64_t time) -> std::optional<std::int64_t> {
    if (table.cheapest({.time = time}) == no_limit) return std::nullopt;
    return costs.slowest(table.smallest_bounds());
  });
}

// The smallest largest memory among splits within `time` that move no more than `bytes`.
std::int64_t smallest_largest_memory(ChainTable& table, const WindowCosts& costs, std::int64_t time,
                                     std::int64_t bytes, std::int64_t known) {
  return smallest_limit(0, known, [&](std::int64_t memory) -> std::optional<std::int64_t> {
    if (table.cheapest({.time = time, .memory = memory}) != bytes) return std::nullopt;
    return costs.largest_memory(table.smallest_bounds());
  });
}

}  // namespace

SplitAnswer chain_dp(const SplitProblem& problem) {
  const WindowCosts costs(problem);
  ChainTable table(costs, CutCost::transfer_bytes);
  if (table.cheapest({}) == no_limit) return std::nullopt;
  const std::int64_t known = costs.slowest(table.smallest_bounds());
  const std::int64_t time = smallest_time(table, costs, trivial_bound(problem), known);
  const std::int64_t bytes = table.cheapest({.time = time});
  const std::int64_t memory =
      smallest_largest_memory(table, costs, time, bytes, costs.largest_memory(table.smallest_bounds()));
  table.cheapest({.time = time, .memory = memory});
  return score_split(problem, table.smallest_bounds());
}

SmallestMemory smallest_memory(const SplitProblem& problem) {
  SplitProblem unlimited = problem;
  for (DeviceType& device : unlimited.devices) device.memory.reset();
  const WindowCosts costs(unlimited);
  ChainTable table(costs, CutCost::nothing);
  table.cheapest({});
  const std::int64_t known = costs.largest_memory(table.smallest_bounds());
  const std::int64_t memory = smallest_largest_memory(table, costs, no_limit, 0, known);
  table.cheapest({.memory = memory});
  return {Bytes{memory}, table.smallest_bounds()};
}

}  // namespace pipeplan
