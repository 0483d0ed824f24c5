// Sleeping and emulated links: what the stamps must show whatever the machine does to the times. All bounds
// are from below: a clock that sleeps may be late, never early.

#include <doctest/doctest.h>

#include <chrono>
#include <map>

#include "executor/sleep/sleep_executor.hpp"
#include "simulator/check_timeline.hpp"
#include "tests/executor/trainings.hpp"

namespace pipeplan {
namespace {

using std::chrono::microseconds;

PipelineCosts slow_costs(std::int64_t stages, TransferMode transfers) {
  PipelineCosts costs;
  costs.transfers = transfers;
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    costs.times.push_back({.forward = microseconds(200 + 50 * stage),
                           .backward_input = microseconds(300),
                           .backward_weight = microseconds(100),
                           .optimizer = microseconds(40)});
    StageMemory memory;
    memory.constant[MemoryItem::weights] = Bytes{100};
    memory.activation_per_micro_batch = Bytes{10 + stage};
    memory.deferred_per_micro_batch = Bytes{3};
    costs.memory.push_back(memory);
    if (stage + 1 < stages)
      costs.boundaries.push_back({.bytes = Bytes{150'000},
                                  .link = {.bandwidth = BytesPerSecond{1'000'000'000},
                                           .latency = microseconds(70)}});  // 150 us + 70 us
  }
  return costs;
}

ExecuteOptions few_iterations() {
  ExecuteOptions options;
  options.warm_ups = 1;
  options.iterations = 3;
  return options;
}

// Every tensor takes its time over the link, arrives before it is used, and, where links are busy, waits for
// the one before it.
void check_transfers(const Timeline& timeline, const PipelineCosts& costs) {
  std::map<std::pair<Direction, StageId>, Nanoseconds> free;
  for (const Transfer& transfer : timeline.transfers) {
    const BoundaryCosts& boundary = costs.boundaries.at(std::min(transfer.from, transfer.to).index());
    const Nanoseconds busy = link_busy_time(boundary.link, boundary.bytes);
    CHECK(transfer.end - transfer.start >= busy + boundary.link.latency);
    if (costs.transfers == TransferMode::overlapped) {
      Nanoseconds& link_free = free[{transfer.direction, transfer.from}];
      CHECK(transfer.start >= link_free);
      link_free = transfer.start + busy;
    }
    for (const Span& span : timeline.spans) {
      const bool forward = transfer.direction == Direction::forward;
      if (span.op.micro_batch != transfer.micro_batch) continue;
      if (forward != (span.op.kind == OpKind::forward) || (!forward && !sends_gradient(span.op.kind)))
        continue;
      if (span.op.stage == transfer.to) CHECK(span.start >= transfer.end);
    }
  }
}

}  // namespace

TEST_CASE("sleep: ops keep their order and their dependencies, and nothing is faster than the simulator") {
  for (const TransferMode transfers : {TransferMode::ignored, TransferMode::overlapped})
    for (const ScheduleKind kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b}) {
      INFO(spelt(transfers) << ", " << spelt(kind));
      const PipelineCosts costs = slow_costs(4, transfers);
      const Schedule schedule = make_schedule(kind, 4, 5);
      const auto slept = execute_asleep(schedule, no_replication(schedule), costs, few_iterations());
      REQUIRE(slept.has_value());
      const Timeline predicted = simulate(schedule, costs).value();
      CHECK(slept->iterations.size() == 3);
      CHECK(early_starts(slept->timeline).empty());
      CHECK(slept->timeline.makespan >= predicted.makespan);
      for (const Nanoseconds iteration : slept->iterations) CHECK(iteration >= predicted.iteration);
      const Comparison comparison = compare(predicted, slept->timeline);
      CHECK(comparison.order_inversions == 0);
      for (const RankComparison& rank : comparison.memory) CHECK(rank.equal());
      if (transfers == TransferMode::overlapped) check_transfers(slept->timeline, costs);
    }
}

TEST_CASE("sleep: more workers than cores, chunks, W apart and copies, not faster than the simulator") {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    INFO("seed " << seed);
    test::Random random(seed);
    const test::OrderShape shape{
        .ranks = 3,
        .micro_batches = 3,
        .stages = {test::BackwardForm::fused, test::BackwardForm::split, test::BackwardForm::fused,
                   test::BackwardForm::split, test::BackwardForm::fused, test::BackwardForm::split}};
    PipelineCosts costs = slow_costs(6, TransferMode::uncontended);
    for (StageTimes& times : costs.times) times.all_reduce = microseconds(120);
    const Schedule schedule = test::queued_order(random, shape);
    Replication copies = no_replication(schedule);
    copies.data_parallel = random.between(1, 2);
    if (copies.data_parallel == 1)
      for (StageTimes& times : costs.times) times.all_reduce = Nanoseconds::zero();
    const auto slept = execute_asleep(schedule, copies, costs, few_iterations());
    REQUIRE(slept.has_value());
    const Timeline predicted = simulate(schedule, costs).value();
    CHECK(slept->timeline.makespan >= predicted.makespan);
    CHECK(slept->timeline.iteration >= predicted.iteration);
    const Comparison comparison = compare(predicted, slept->timeline);
    for (const RankComparison& rank : comparison.memory) CHECK(rank.equal());
    if (copies.data_parallel > 1) continue;  // one copy may start an op before another ends what it needs
    CHECK(early_starts(slept->timeline).empty());
    check_transfers(slept->timeline, costs);
  }
}

TEST_CASE(
    "emulated links: tensors of real layers arrive no sooner than the links of the plan allow, numbers as "
    "ever") {
  const ModelGraph model = test::small_mlp();
  const Profile profile = test::quick_profile(model, {1, 2});
  for (const TransferMode transfers : {TransferMode::uncontended, TransferMode::overlapped}) {
    INFO(spelt(transfers));
    Plan plan = test::even_plan(profile, 3, 3, ScheduleKind::one_f_one_b);
    plan.transfers = transfers;
    plan.cluster.nodes.front().link = {.bandwidth = BytesPerSecond{1'000'000}, .latency = microseconds(150)};
    ExecuteOptions options = test::quick_options();
    options.emulate_links = true;
    const Schedule schedule = make_schedule(plan).value();
    const test::Trained trained = test::train(model, profile, plan, schedule, options);
    test::check_trained(trained, model, test::bit_for_bit);
    check_transfers(trained.execution.timeline, test::fitted_costs(profile, plan, schedule));
  }
}

TEST_CASE("emulated links: the all-reduce of copies takes at least as long as its ring behind the last op") {
  const ModelGraph model = test::small_mlp();
  const Profile profile = test::quick_profile(model, {1, 2});
  Plan plan = test::replicated(test::even_plan(profile, 2, 2, ScheduleKind::gpipe), {1, 1}, 2);
  plan.cluster.nodes.front().link = {.bandwidth = BytesPerSecond{50'000'000}, .latency = microseconds(300)};
  ExecuteOptions options = test::quick_options();
  options.emulate_links = true;
  const Schedule schedule = make_schedule(plan).value();
  const PipelineCosts costs = test::fitted_costs(profile, plan, schedule);
  const Nanoseconds ring = std::max(costs.times[StageId{0}].all_reduce, costs.times[StageId{1}].all_reduce);
  CHECK(ring >= 2 * (2 - 1) * microseconds(300));
  const auto execution = execute(model, schedule, plan, costs, options);
  REQUIRE(execution.has_value());
  // Rank 0 ends last, and its ring begins when all its copies have run their last op.
  CHECK(execution->timeline.step() >= costs.times[StageId{0}].all_reduce);
}

}  // namespace pipeplan
