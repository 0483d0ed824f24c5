// chain_dp against the obvious dynamic programs in O(k n^2), on chains too long for brute force.

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "planner/chain_dp.hpp"
#include "planner/memory.hpp"
#include "tests/planner/instances.hpp"

using namespace pipeplan;
using namespace pipeplan::test;

namespace {

constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();

struct Arc {
  std::int64_t time, bytes, memory;
};

// The window [first, end) as stage `stage`, with the link and the cut behind it.
Arc arc(const SplitProblem& problem, std::int64_t stage, std::int64_t first, std::int64_t end) {
  const auto at = static_cast<std::size_t>(stage);
  const CostTable& table = *problem.table;
  const StageMemory memory = stage_memory(table, first, end, stage, problem.stages, problem.schedule,
                                          problem.micro_batch_count, problem.state, problem.devices[at]);
  Arc result{
      table.stage_times(first, end, problem.devices[at].speed_factor).per_micro_batch().count(), 0,
      peak_memory(memory, in_flight(problem.schedule, problem.stages, problem.micro_batch_count, stage))
          .value};
  if (memory.limit && result.memory > memory.limit->value) result.time = none;
  if (stage + 1 == problem.stages) return result;
  const Bytes crossing{table.cut_bytes[static_cast<std::size_t>(end)]};
  result.bytes = crossing.value;
  if (problem.transfers == TransferMode::overlapped)
    result.time = std::max(result.time, link_busy_time(problem.links[at], crossing).count());
  return result;
}

// Least value of all paths of arcs, joining by `join` (largest or sum); an arc that costs `none` is closed.
std::int64_t least(const SplitProblem& problem, const std::function<std::int64_t(const Arc&)>& cost,
                   bool by_sum) {
  const auto layers = static_cast<std::size_t>(problem.table->layer_count);
  std::vector<std::int64_t> reached(layers + 1, none);
  reached[0] = 0;
  for (std::int64_t stage = 0; stage < problem.stages; ++stage) {
    std::vector<std::int64_t> next(layers + 1, none);
    for (std::size_t end = 1; end <= layers; ++end)
      for (std::size_t first = 0; first < end; ++first) {
        if (reached[first] == none) continue;
        const std::int64_t own =
            cost(arc(problem, stage, static_cast<std::int64_t>(first), static_cast<std::int64_t>(end)));
        if (own == none) continue;
        next[end] = std::min(next[end], by_sum ? reached[first] + own : std::max(reached[first], own));
      }
    reached = std::move(next);
  }
  return reached[layers];
}

}  // namespace

TEST_CASE("chain_dp: equals plain dynamic programs on chains of up to 60 layers") {
  int feasible = 0;
  for (std::uint64_t seed = 1; seed <= 90; ++seed) {
    INFO("seed ", seed);
    Random random(seed);
    const std::int64_t layers = random.between(12, 60);
    const std::int64_t stages = random.between(2, 12);
    Instance instance = seed <= 60 ? random_instance(random, layers, stages)
                                   : random_recomputing_instance(random, layers, stages);
    const SplitProblem& problem = instance.asked();
    const SplitAnswer answer = chain_dp(problem);
    const std::int64_t time = least(
        problem, [](const Arc& arc) { return arc.time; }, false);
    REQUIRE(answer.has_value() == (time != none));
    if (!answer) continue;
    ++feasible;
    CHECK(answer->slowest_ns == time);
    CHECK(*answer == score_split(problem, answer->bounds));
    CHECK(fits(problem, answer->bounds));
    const std::int64_t bytes = least(
        problem, [&](const Arc& arc) { return arc.time <= time ? arc.bytes : none; }, true);
    CHECK(answer->transfer_bytes == bytes);
    // A byte less than the largest memory must cost transfer bytes.
    const auto smaller = [&](const Arc& arc) {
      return arc.time <= time && arc.memory < answer->largest_memory ? arc.bytes : none;
    };
    CHECK(least(problem, smaller, true) > bytes);
  }
  CHECK(feasible > 45);
}
