#include "simulator/memory_steps.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "simulator/order_demand.hpp"
#include "simulator/simulate.hpp"
#include "tests/simulator/pipelines.hpp"

using namespace pipeplan;

namespace {

struct Peak {
  std::int64_t bytes = 0, in_flight = 0;
};

// The peak from the order of the ops alone, without any times.
Peak walk(const std::vector<Op>& row, const StageMemory& memory) {
  Peak peak{memory.constant.total().value, 0};
  std::int64_t held = 0, split = 0;
  for (const Op& op : row) {
    if (op.kind == OpKind::forward) ++held;
    if (op.kind == OpKind::backward_input) ++split;
    peak.in_flight = std::max(peak.in_flight, held);
    peak.bytes =
        std::max(peak.bytes, memory.constant.total().value + held * memory.activation_per_micro_batch.value +
                                 split * memory.deferred_per_micro_batch.value);
    if (op.kind == OpKind::backward || op.kind == OpKind::backward_weight) --held;
    if (op.kind == OpKind::backward_weight) --split;
  }
  return peak;
}

}  // namespace

TEST_CASE("memory_steps: peaks equal a walk over the order to the byte, on 300 random pipelines") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    test::Random random(seed);
    const std::int64_t stages = random.between(1, 6);
    const Schedule schedule = test::random_schedule(random, stages);
    const PipelineCosts costs = test::random_costs(random, stages);
    const Timeline timeline = simulate(schedule, costs).value();
    const OrderDemand demand = order_demand(schedule);
    for (const RankId rank : ids<RankId>(schedule.ranks.size())) {
      const RankMemory& memory = timeline.memory[rank];
      const Peak peak = walk(schedule.ranks[rank], costs.memory[StageId{rank.value}]);
      CHECK(memory.peak.total().value == peak.bytes);
      CHECK(memory.peak_in_flight == peak.in_flight);
      CHECK(memory.peak_in_flight == demand.peak_in_flight[rank]);
    }
  }
}

TEST_CASE(
    "memory_steps: steps ascend in time, start and end with the constant part, and hold the peak where it is "
    "said") {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    test::Random random(seed);
    const std::int64_t stages = random.between(1, 5);
    const PipelineCosts costs = test::random_costs(random, stages);
    const Timeline timeline = simulate(test::random_schedule(random, stages), costs).value();
    for (const RankId rank : ids<RankId>(timeline.memory.size())) {
      const RankMemory& memory = timeline.memory[rank];
      const StageMemory& stage = costs.memory[StageId{rank.value}];
      const MemoryStep constant{Nanoseconds{0}, stage.constant.total(), 0};
      CHECK(memory.steps.front() == constant);
      CHECK(memory.steps.back().bytes == constant.bytes);
      CHECK(memory.steps.back().in_flight == 0);
      CHECK(std::is_sorted(memory.steps.begin(), memory.steps.end(),
                           [](const MemoryStep& a, const MemoryStep& b) { return a.at < b.at; }));
      const auto largest = std::max_element(memory.steps.begin(), memory.steps.end(),
                                            [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
      CHECK(largest->at == memory.peak_at);
      CHECK(largest->bytes == memory.peak.total());
      MemoryUse items = memory.peak;
      items[MemoryItem::activations] = stage.constant[MemoryItem::activations];
      CHECK(items == stage.constant);
    }
  }
}

TEST_CASE("memory_steps: what an op releases at its end is gone when the next one starts at that instant") {
  PipelineCosts costs = test::uniform_costs(1, test::stage_times(1, 1, 0));
  costs.memory[StageId{0}].activation_per_micro_batch = Bytes{8};
  const Timeline timeline = simulate(make_schedule(ScheduleKind::one_f_one_b, 1, 2), costs).value();
  const RankMemory& memory = timeline.memory[RankId{0}];
  const auto step = [](std::int64_t at, std::int64_t bytes, std::int64_t in_flight) {
    return MemoryStep{Nanoseconds{at}, Bytes{bytes}, in_flight};
  };
  CHECK(memory.steps ==
        std::vector{step(0, 0, 0), step(0, 8, 1), step(2, 0, 0), step(2, 8, 1), step(4, 0, 0)});
  CHECK(memory.peak.total() == Bytes{8});
  CHECK(memory.peak_at == Nanoseconds{0});
}

TEST_CASE("memory_steps: with a split backward activations stay until W ends") {
  PipelineCosts costs = test::uniform_costs(1, test::stage_times(1, 2, 3));
  costs.memory[StageId{0}].activation_per_micro_batch = Bytes{8};
  Schedule schedule{ScheduleKind::gpipe, false, 1, 1, {}};
  schedule.ranks.push_back(
      {{OpKind::forward, {}, {}}, {OpKind::backward_input, {}, {}}, {OpKind::backward_weight, {}, {}}});
  const Timeline timeline = simulate(schedule, costs).value();
  const auto& steps = timeline.memory[RankId{0}].steps;
  CHECK(steps.back() == MemoryStep{Nanoseconds{1 + 2 + 3}, Bytes{0}, 0});
  CHECK(steps.size() == 3);
}

TEST_CASE("memory_steps: what B leaves for W is held from the start of the one to the end of the other") {
  PipelineCosts costs = test::uniform_costs(1, test::stage_times(1, 2, 3));
  costs.memory[StageId{0}].activation_per_micro_batch = Bytes{8};
  costs.memory[StageId{0}].deferred_per_micro_batch = Bytes{5};
  const auto op = [](OpKind kind, std::int32_t k) { return Op{kind, {}, MicrobatchId{k}}; };
  using enum OpKind;
  Schedule schedule{ScheduleKind::gpipe, false, 1, 2, {}};
  schedule.ranks.push_back({op(forward, 0), op(forward, 1), op(backward_input, 0), op(backward_input, 1),
                            op(backward_weight, 0), op(backward_weight, 1)});
  const Timeline timeline = simulate(schedule, costs).value();
  const RankMemory& memory = timeline.memory[RankId{0}];
  const auto step = [](std::int64_t at, std::int64_t bytes, std::int64_t in_flight) {
    return MemoryStep{Nanoseconds{at}, Bytes{bytes}, in_flight};
  };
  CHECK(memory.steps == std::vector{step(0, 0, 0), step(0, 8, 1), step(1, 2 * 8, 2), step(2, 2 * 8 + 5, 2),
                                    step(4, 2 * 8 + 2 * 5, 2), step(9, 8 + 5, 1), step(12, 0, 0)});
  CHECK(memory.peak[MemoryItem::activations] == Bytes{2 * 8 + 2 * 5});
}

TEST_CASE("memory_steps: stages that share a rank add up, what the device reserves counts once") {
  PipelineCosts costs = test::uniform_costs(2, test::stage_times(1, 1, 0));
  for (StageMemory& stage : costs.memory) {
    stage.constant[MemoryItem::weights] = Bytes{100};
    stage.constant[MemoryItem::reserved] = Bytes{1000};
    stage.activation_per_micro_batch = Bytes{8};
  }
  test::Random random(1);
  const Timeline timeline = simulate(test::random_order(random, 2, 1, 1), costs).value();
  CHECK(timeline.memory[RankId{0}].peak.total() == Bytes{2 * 100 + 1000 + 2 * 8});
}
