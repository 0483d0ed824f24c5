// The engine on the virtual clock against the simulator: two ways to the same timeline.

#include <doctest/doctest.h>

#include "executor/virtual/virtual_executor.hpp"
#include "simulator/simulate.hpp"
#include "tests/executor/orders.hpp"
#include "tests/executor/support.hpp"

namespace pipeplan {
namespace {

void check_equal(const Schedule& schedule, const Replication& replication, const PipelineCosts& costs) {
  const auto simulated = simulate(schedule, costs);
  const auto executed = execute_virtually(schedule, replication, costs);
  REQUIRE(simulated.has_value());
  REQUIRE(executed.has_value());
  const Timeline& timeline = executed->timeline;
  CHECK(timeline.spans == simulated->spans);
  CHECK(timeline.transfers == simulated->transfers);
  CHECK(timeline.makespan == simulated->makespan);
  CHECK(timeline.iteration == simulated->iteration);
  CHECK(timeline.memory == simulated->memory);
}

// Replicas that share 12 samples, and the all-reduce that follows from them.
Replication random_replication(test::Random& random, const Schedule& schedule, PipelineCosts& costs) {
  Replication replication{.data_parallel = random.between(1, 2), .micro_batch_size = 12};
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank)
    replication.replicas.push_back(
        std::vector{1, 1, 2, 3, 4}[static_cast<std::size_t>(random.between(0, 4))]);
  for (const StageId stage : ids<StageId>(costs.times.size())) {
    const auto rank = id_of<RankId>(stage.index() % schedule.ranks.size());
    if (replication.replicas[rank] * replication.data_parallel > 1)
      costs.times[stage].all_reduce = Nanoseconds{random.between(0, 90)};
  }
  return replication;
}

test::OrderShape random_shape(test::Random& random) {
  test::OrderShape shape{.ranks = random.between(1, 4), .micro_batches = random.between(1, 6), .stages = {}};
  const std::int64_t stages = shape.ranks * random.between(1, 3);
  for (std::int64_t stage = 0; stage < stages; ++stage)
    shape.stages.push_back(static_cast<test::BackwardForm>(random.between(0, 2)));
  return shape;
}

PipelineCosts costs_of(test::Random& random, const test::OrderShape& shape) {
  PipelineCosts costs = test::random_costs(random, static_cast<std::int64_t>(shape.stages.size()));
  for (const StageId stage : ids<StageId>(costs.times.size())) {
    StageMemory& memory = costs.memory[stage];
    memory.constant[MemoryItem::reserved] = Bytes{random.between(0, 20)};
    memory.deferred_per_micro_batch = Bytes{random.between(0, 20)};
    if (shape.stages[stage.index()] != test::BackwardForm::recomputed) continue;
    costs.times[stage].recompute = Nanoseconds{random.between(1, 50)};
    memory.constant[MemoryItem::activations] = Bytes{random.between(1, 40)};
  }
  return costs;
}

}  // namespace

TEST_CASE("virtual clock: equals the simulator op by op on 300 random pipelines of the named schedules") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    INFO("seed " << seed);
    test::Random random(seed);
    const std::int64_t stages = random.between(1, 6);
    const auto kind = static_cast<ScheduleKind>(random.between(0, 2));
    const Schedule schedule = make_schedule(kind, stages, random.between(1, 9));
    PipelineCosts costs = test::random_costs(random, stages);
    const Replication replication = random_replication(random, schedule, costs);
    check_equal(schedule, replication, costs);
  }
}

TEST_CASE(
    "virtual clock: equals the simulator on 600 random orders with chunks, W apart, recomputation and "
    "replicas") {
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    INFO("seed " << seed);
    test::Random random(seed);
    const test::OrderShape shape = random_shape(random);
    const Schedule schedule = test::queued_order(random, shape);
    PipelineCosts costs = costs_of(random, shape);
    const Replication replication = random_replication(random, schedule, costs);
    check_equal(schedule, replication, costs);
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
  const Schedule schedule = make_schedule(ScheduleKind::gpipe, 2, 3);
  const auto executed = execute_virtually(schedule, no_replication(schedule), costs);
  REQUIRE(executed.has_value());
  CHECK(executed->timeline.makespan == Nanoseconds{(3 + 2 - 1) * (10 + 20)});
}

TEST_CASE("virtual clock: the all-reduce of copies comes after the makespan, the step after the all-reduce") {
  PipelineCosts costs;
  costs.times = {{.forward = Nanoseconds{10},
                  .backward_input = Nanoseconds{20},
                  .optimizer = Nanoseconds{5},
                  .all_reduce = Nanoseconds{7}}};
  costs.memory = PerId<StageId, StageMemory>(1);
  const Schedule schedule = make_schedule(ScheduleKind::gpipe, 1, 2);
  Replication copies = no_replication(schedule);
  copies.data_parallel = 3;
  const auto executed = execute_virtually(schedule, copies, costs);
  REQUIRE(executed.has_value());
  CHECK(executed->timeline.makespan == Nanoseconds{2 * (10 + 20)});
  CHECK(executed->timeline.iteration == Nanoseconds{2 * (10 + 20) + 7 + 5});
}

}  // namespace pipeplan
