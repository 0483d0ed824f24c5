// The engine on the virtual clock against the simulator: two ways to the same timeline.

#include <doctest/doctest.h>

#include "executor/virtual/virtual_executor.hpp"
#include "simulator/simulate.hpp"
#include "tests/executor/support.hpp"

namespace pipeplan {

TEST_CASE("virtual clock: equals the simulator op by op on 600 random pipelines") {
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    INFO("seed " << seed);
    test::Random random(seed);
    const std::int64_t stages = random.between(1, 6);
    const auto kind = static_cast<ScheduleKind>(random.between(0, 2));
    const Schedule schedule = make_schedule(kind, stages, random.between(1, 9));
    const PipelineCosts costs = test::random_costs(random, stages);
    const auto simulated = simulate(schedule, costs);
    const auto executed = execute_virtually(schedule, costs);
    REQUIRE(simulated.has_value());
    REQUIRE(executed.has_value());
    const Timeline& timeline = executed->timeline;
    CHECK(timeline.spans == simulated->spans);
    CHECK(timeline.transfers == simulated->transfers);
    CHECK(timeline.makespan == simulated->makespan);
    CHECK(timeline.iteration == simulated->iteration);
    for (const RankId rank : ids<RankId>(timeline.memory.size())) {
      CHECK(timeline.memory[rank].peak == simulated->memory[rank].peak);
      CHECK(timeline.memory[rank].peak_at == simulated->memory[rank].peak_at);
      CHECK(timeline.memory[rank].peak_in_flight == simulated->memory[rank].peak_in_flight);
    }
  }
}

TEST_CASE(
    "virtual clock: 2 uniform stages, 3 micro-batches, GPipe end after (3 + 2 - 1) forwards and backwards") {
  PipelineCosts costs;
  costs.transfers = TransferMode::ignored;
  const StageTimes times{.forward = Nanoseconds{10}, .backward_input = Nanoseconds{20}};
  costs.times = PerId<StageId, StageTimes>(2, times);
  costs.memory = PerId<StageId, StageMemory>(2);
  costs.boundaries.resize(1);
  const auto executed = execute_virtually(make_schedule(ScheduleKind::gpipe, 2, 3), costs);
  REQUIRE(executed.has_value());
  CHECK(executed->timeline.makespan == Nanoseconds{(3 + 2 - 1) * (10 + 20)});
}

}  // namespace pipeplan
