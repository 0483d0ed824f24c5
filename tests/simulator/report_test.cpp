#include "simulator/report.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "simulator/simulate.hpp"
#include "tests/simulator/pipelines.hpp"

using namespace pipeplan;

namespace {

Report report_of(const Schedule& schedule, const PipelineCosts& costs,
                 std::optional<std::int64_t> batch = {}) {
  return summarize(simulate(schedule, costs).value(), schedule, costs, batch);
}

}  // namespace

TEST_CASE("summarize: 1f1b on 4 uniform stages with 8 micro-batches gives 3/11, 3/8 and 8/11") {
  const Report report = report_of(make_schedule(ScheduleKind::one_f_one_b, 4, 8),
                                  test::uniform_costs(4, test::stage_times(100, 100, 100)), 16);
  CHECK(report.makespan == Nanoseconds{(8 + 4 - 1) * 300});
  CHECK(report.bubble_fraction == 3.0 / 11.0);
  CHECK(report.bubble_ratio == 3.0 / 8.0);
  CHECK(report.bubble_fraction_span == 3.0 / 11.0);
  CHECK(report.utilization == doctest::Approx(8.0 / 11.0));
  CHECK(report.transfer_fraction == 0);
  CHECK(report.samples_per_second.value() == 16 * 1e9 / 3300);
  CHECK(report.warnings.empty());
  for (const RankReport& rank : report.ranks) {
    CHECK(rank.busy == Nanoseconds{8 * 300});
    CHECK(rank.idle == Nanoseconds{3 * 300});
  }
}

TEST_CASE("summarize: the span bubble leaves out what is before the first and after the last op of a rank") {
  // p = 2, m = 1, split backwards. Rank 0 works from 0 to 14, rank 1 from 10, when F0.0 ends, to 112.
  PipelineCosts costs = test::uniform_costs(2, test::stage_times(10, 1, 1));
  costs.times[StageId{1}] = test::stage_times(1, 1, 100);
  Schedule schedule{ScheduleKind::gpipe, false, 2, 1, PerId<RankId, std::vector<Op>>(2)};
  for (const std::int32_t i : {0, 1})
    for (const OpKind kind : {OpKind::forward, OpKind::backward_input, OpKind::backward_weight})
      schedule.ranks[RankId{i}].push_back({kind, StageId{i}, MicrobatchId{0}});
  const Report report = report_of(schedule, costs);
  CHECK(report.makespan == Nanoseconds{10 + 1 + 1 + 100});
  CHECK(report.span == Nanoseconds{1 + 1 + 100});
  CHECK(report.bubble_fraction == (2 * 112 - (12 + 102)) / (2 * 112.0));
  CHECK(report.bubble_fraction_span == (2 * 102 - (12 + 102)) / (2 * 102.0));
}

TEST_CASE("summarize: one rank without waits has no bubble") {
  const Report report = report_of(make_schedule(ScheduleKind::gpipe, 1, 3),
                                  test::uniform_costs(1, test::stage_times(10, 10, 10)));
  CHECK(report.bubble_fraction == 0);
  CHECK(report.utilization == 1);
}

TEST_CASE("summarize: the simulated makespan and bubbles equal the closed form for all named orders") {
  for (const ScheduleKind kind : test::all_schedules)
    for (std::int64_t p = 1; p <= 6; ++p)
      for (std::int64_t m = 1; m <= 9; ++m) {
        INFO("p=", p, " m=", m, " ", spelt(kind));
        const Report report =
            report_of(make_schedule(kind, p, m), test::uniform_costs(p, test::stage_times(3, 1, 7)));
        REQUIRE(report.closed_form.has_value());
        CHECK(report.makespan == report.closed_form->makespan);
        CHECK(report.bubble_fraction == report.closed_form->bubble_fraction);
        CHECK(report.bubble_ratio == report.closed_form->bubble_ratio);
      }
}

TEST_CASE(
    "closed_form: none for uneven stages, for transfers that cost, for hand-made orders and for no work") {
  const Schedule gpipe = make_schedule(ScheduleKind::gpipe, 2, 2);
  PipelineCosts costs = test::uniform_costs(2, test::stage_times(1, 2, 3));
  CHECK(closed_form(gpipe, costs).has_value());
  costs.times[StageId{1}] = test::stage_times(1, 4, 1);  // X is the same
  CHECK(closed_form(gpipe, costs).has_value());
  costs.times[StageId{1}] = test::stage_times(2, 2, 3);
  CHECK_FALSE(closed_form(gpipe, costs).has_value());
  costs = test::uniform_costs(2, test::stage_times(1, 2, 3), 1);
  CHECK_FALSE(closed_form(gpipe, costs).has_value());
  costs.transfers = TransferMode::ignored;
  CHECK(closed_form(gpipe, costs).has_value());
  Schedule by_hand = gpipe;
  by_hand.named = false;
  CHECK_FALSE(closed_form(by_hand, costs).has_value());
  CHECK_FALSE(closed_form(gpipe, test::uniform_costs(2, test::stage_times(0, 0, 0))).has_value());
}

TEST_CASE("summarize: without any work and time all ratios are 0") {
  const Report report = report_of(make_schedule(ScheduleKind::gpipe, 2, 2),
                                  test::uniform_costs(2, test::stage_times(0, 0, 0)), 4);
  CHECK(report.bubble_fraction == 0);
  CHECK(report.bubble_ratio == 0);
  CHECK(report.bubble_fraction_span == 0);
  CHECK(report.transfer_fraction == 0);
  CHECK_FALSE(report.samples_per_second.has_value());
}

TEST_CASE("summarize: the optimizer step is in the iteration but in no bubble") {
  PipelineCosts costs = test::uniform_costs(2, test::stage_times(10, 10, 10));
  const Report without = report_of(make_schedule(ScheduleKind::gpipe, 2, 3), costs, 6);
  for (StageTimes& times : costs.times) times.optimizer = Nanoseconds{7};
  const Report with = report_of(make_schedule(ScheduleKind::gpipe, 2, 3), costs, 6);
  CHECK(with.step == Nanoseconds{7});
  CHECK(with.iteration == without.iteration + Nanoseconds{7});
  CHECK(with.bubble_fraction == without.bubble_fraction);
  CHECK(*with.samples_per_second < *without.samples_per_second);
}

TEST_CASE("summarize: an all-reduce is a part of the step, as far as it is not hidden") {
  // gpipe, p = 2, m = 1: rank 1 ends its backward at 3, rank 0 at 4.
  PipelineCosts costs = test::uniform_costs(2, test::stage_times(1, 1, 0));
  costs.times[StageId{0}].optimizer = Nanoseconds{2};
  const auto all_reduce = [&](std::int64_t front, std::int64_t back) {
    costs.times[StageId{0}].all_reduce = Nanoseconds{front};
    costs.times[StageId{1}].all_reduce = Nanoseconds{back};
    const Report report = report_of(make_schedule(ScheduleKind::gpipe, 2, 1), costs);
    CHECK(report.makespan == Nanoseconds{1 + 1 + 1 + 1});
    return std::pair(report.step.count(), report.all_reduce.count());
  };
  using Parts = std::pair<std::int64_t, std::int64_t>;
  CHECK(all_reduce(0, 0) == Parts(2, 0));
  CHECK(all_reduce(5, 0) == Parts(2 + 5, 5));
  CHECK(all_reduce(0, 3) == Parts(2, 0));          // rank 1: 3 + 3 is no later than 4 + 2
  CHECK(all_reduce(0, 9) == Parts(3 + 9 - 4, 6));  // against 4 + 2 without it
}

TEST_CASE("summarize: recomputation is busy time and shown apart, fused or in ops of its own") {
  PipelineCosts costs = test::uniform_costs(1, test::stage_times(10, 15, 5));
  CHECK(report_of(make_schedule(ScheduleKind::gpipe, 1, 2), costs).ranks[RankId{0}].recompute_fraction == 0);
  costs.times[StageId{0}].recompute = Nanoseconds{6};
  const Report fused = report_of(make_schedule(ScheduleKind::gpipe, 1, 2), costs);
  CHECK(fused.ranks[RankId{0}].busy == Nanoseconds{2 * (10 + 15 + 5 + 6)});
  CHECK(fused.ranks[RankId{0}].recompute_fraction == 2 * 6 / (2 * 36.0));
  Schedule apart = make_schedule(ScheduleKind::gpipe, 1, 2);
  auto& row = apart.ranks[RankId{0}];
  row.insert(row.begin() + 2, {OpKind::recompute, StageId{0}, MicrobatchId{1}});
  const Report mixed = report_of(apart, costs);
  CHECK(mixed.ranks[RankId{0}].recompute_fraction == 2 * 6 / (2 * 36.0));
  CHECK(mixed.makespan == fused.makespan);
}

TEST_CASE("closed_form: fused recomputation is part of the backward, for ops of its own there is none") {
  PipelineCosts costs = test::uniform_costs(3, test::stage_times(4, 5, 6));
  for (StageTimes& times : costs.times) times.recompute = times.forward;
  for (const ScheduleKind kind : test::all_schedules) {
    const Report report = report_of(make_schedule(kind, 3, 5), costs);
    REQUIRE(report.closed_form.has_value());
    CHECK(report.makespan == report.closed_form->makespan);
    CHECK(report.bubble_fraction == report.closed_form->bubble_fraction);
  }
  Schedule apart = make_schedule(ScheduleKind::gpipe, 3, 5);
  auto& row = apart.ranks[RankId{0}];
  row.insert(row.end() - 1, {OpKind::recompute, StageId{0}, MicrobatchId{0}});
  CHECK_FALSE(closed_form(apart, costs).has_value());
}

TEST_CASE("summarize: transfers above 0.3 of compute and transfer time are warned of with their share") {
  // Per micro-batch: 2 stages of 30 ns, 2 transfers of `latency`.
  const Schedule schedule = make_schedule(ScheduleKind::gpipe, 2, 4);
  const auto with_latency = [&](std::int64_t latency) {
    return report_of(schedule, test::uniform_costs(2, test::stage_times(10, 10, 10), latency));
  };
  const Report below = with_latency(12);
  CHECK(below.transfer_fraction == 2 * 12 / (2 * 12 + 2 * 30.0));
  CHECK(below.warnings.empty());
  const Report above = with_latency(20);
  REQUIRE(above.warnings.size() == 1);
  CHECK(above.warnings[0].code == WarningCode::transfer_bound);
  CHECK(above.warnings[0].message == "transfers take 40.0 % of all compute and transfer time, above 30 %");
}

TEST_CASE("summarize: fewer micro-batches than ranks are warned of with the bubble they cost") {
  const Report report = report_of(make_schedule(ScheduleKind::one_f_one_b, 8, 1),
                                  test::uniform_costs(8, test::stage_times(1, 1, 1)));
  REQUIRE(report.warnings.size() == 1);
  CHECK(report.warnings[0].code == WarningCode::few_micro_batches);
  CHECK(report.warnings[0].message == "1 micro-batch on 8 ranks: idle for 87.5 % of the time");
}

TEST_CASE("summarize: each rank shows its peak item by item and its limit") {
  PipelineCosts costs = test::uniform_costs(2, test::stage_times(1, 1, 1));
  costs.memory[StageId{1}].constant[MemoryItem::weights] = Bytes{100};
  costs.memory[StageId{1}].activation_per_micro_batch = Bytes{8};
  costs.memory[StageId{1}].limit = Bytes{120};
  const Report report = report_of(make_schedule(ScheduleKind::gpipe, 2, 3), costs);
  const RankReport& rank = report.ranks[RankId{1}];
  CHECK(rank.peak_memory.total() == Bytes{100 + 3 * 8});
  CHECK(rank.peak_memory[MemoryItem::activations] == Bytes{3 * 8});
  CHECK(rank.peak_in_flight == 3);
  CHECK(rank.peak_at == Nanoseconds{1 + 1 + 1});  // F1.2 starts
  CHECK(rank.memory_limit == Bytes{120});
  CHECK_FALSE(report.ranks[RankId{0}].memory_limit.has_value());
}

TEST_CASE("report document: the keys of pipeplan.report/1 in their order") {
  const Json json = to_json(report_of(make_schedule(ScheduleKind::gpipe, 2, 1),
                                      test::uniform_costs(2, test::stage_times(1, 1, 1), 9)));
  const auto keys_of = [](const Json& object) {
    std::vector<std::string> keys;
    for (const auto& entry : object.items()) keys.push_back(entry.key());
    return keys;
  };
  CHECK(keys_of(json) == std::vector<std::string>{
                             "schema", "iteration_ns", "makespan_ns", "step_ns", "all_reduce_ns", "span_ns",
                             "bubble_fraction", "bubble_ratio", "bubble_fraction_span", "utilization",
                             "transfer_fraction", "samples_per_second", "closed_form", "ranks", "warnings"});
  CHECK(json["schema"] == "pipeplan.report/1");
  CHECK(json["samples_per_second"].is_null());
  CHECK(json["closed_form"].is_null());
  CHECK(keys_of(json["ranks"][1]) ==
        std::vector<std::string>{"rank", "busy_ns", "idle_ns", "recompute_fraction", "peak_in_flight",
                                 "peak_memory_bytes", "peak_at_ns", "memory_limit_bytes", "memory_items"});
  CHECK(keys_of(json["ranks"][0]["memory_items"]) ==
        std::vector<std::string>{"weights_bytes", "gradients_bytes", "optimizer_state_bytes",
                                 "activations_bytes", "workspace_bytes", "communication_bytes",
                                 "reserved_bytes"});
  CHECK(keys_of(json["warnings"][0]) == std::vector<std::string>{"code", "message", "hint"});
  CHECK(json["warnings"][0]["code"] == "transfer-bound");
  CHECK(json["warnings"][1]["code"] == "few-micro-batches");
}

TEST_CASE(
    "bubble formula: four readings of N/(N+k-1), and that of the card exceeds the bubble by 1/(N+k-1)") {
  const BubbleFormula formula{4, 8};
  CHECK(formula.utilization() == 8.0 / 11);
  CHECK(formula.bubble_fraction() == 3.0 / 11);
  CHECK(formula.card() == 4.0 / 11);
  CHECK(formula.speed_up() == 32.0 / 11);
  for (std::int64_t n = 1; n <= 9; ++n)
    for (std::int64_t k = 1; k <= 9; ++k) {
      const BubbleFormula at{n, k};
      CHECK(at.card() - at.bubble_fraction() == doctest::Approx(1.0 / static_cast<double>(n + k - 1)));
      CHECK(at.utilization() + at.bubble_fraction() == doctest::Approx(1));
    }
}

TEST_CASE("bubble formula: utilization and bubble are what the simulator finds") {
  const Report report =
      report_of(make_schedule(ScheduleKind::gpipe, 5, 7), test::uniform_costs(5, test::stage_times(2, 2, 2)));
  CHECK(report.bubble_fraction == BubbleFormula{5, 7}.bubble_fraction());
  CHECK(report.utilization == doctest::Approx(BubbleFormula{5, 7}.utilization()));
}
