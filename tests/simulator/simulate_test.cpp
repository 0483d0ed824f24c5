#include "simulator/simulate.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "simulator/check_timeline.hpp"
#include "tests/simulator/pipelines.hpp"

using namespace pipeplan;

namespace {

// The oracle: start times by relaxation. Everything starts at 0; every op and every transfer is pushed back
// to what it waits for, over and over, until nothing moves. Shares no code with the engine.
class Relaxation {
 public:
  Relaxation(const Schedule& schedule, const PipelineCosts& costs) : schedule_(schedule), costs_(costs) {
    for (const auto& row : schedule.ranks)
      for (const Op& op : row) {
        start_[op] = 0;
        if (op.kind == OpKind::recompute) apart_.insert({op.stage, op.micro_batch});
        rank_of_[op.stage] = static_cast<std::int64_t>(&row - &*schedule.ranks.begin());
      }
    while (push_back_once()) {
    }
  }

  [[nodiscard]] std::int64_t start(const Op& op) const { return start_.at(op); }
  [[nodiscard]] std::int64_t end(const Op& op) const { return start(op) + duration(op); }

 private:
  [[nodiscard]] std::int64_t duration(const Op& op) const {
    const StageTimes& times = costs_.times[op.stage];
    std::int64_t total = 0;
    if (op.kind == OpKind::forward) total += times.forward.count();
    if (op.kind == OpKind::backward || op.kind == OpKind::backward_input)
      total += times.backward_input.count();
    if (op.kind == OpKind::backward || op.kind == OpKind::backward_weight)
      total += times.backward_weight.count();
    if (op.kind == OpKind::recompute) total += times.recompute.count();
    if (op.kind == OpKind::backward && apart_.count({op.stage, op.micro_batch}) == 0)
      total += times.recompute.count();
    return total;
  }

  bool push_back_once() {
    bool moved = false;
    const std::map<Op, std::int64_t> arrivals = arrivals_now();
    for (const auto& row : schedule_.ranks)
      for (std::size_t i = 0; i < row.size(); ++i) {
        std::int64_t earliest = i == 0 ? 0 : end(row[i - 1]);
        const auto arrival = arrivals.find(row[i]);
        if (arrival != arrivals.end()) earliest = std::max(earliest, arrival->second);
        moved = moved || earliest > start_[row[i]];
        start_[row[i]] = std::max(start_[row[i]], earliest);
      }
    return moved;
  }

  // When the input of each op from another stage is there, by the op that receives it.
  [[nodiscard]] std::map<Op, std::int64_t> arrivals_now() const {
    std::map<Op, std::int64_t> arrivals;
    std::map<std::pair<StageId, StageId>, std::int64_t> link_free;
    for (const auto& row : schedule_.ranks)
      for (const Op& op : row) {
        const bool up = op.kind == OpKind::forward, down = sends_gradient(op.kind);
        const StageId to{op.stage.value + (up ? 1 : -1)};
        if ((!up && !down) || to.value < 0 || to.value >= schedule_.stage_count) continue;
        const std::int64_t at = arrival(op, to, link_free[{op.stage, to}]);
        if (up) arrivals[{OpKind::forward, to, op.micro_batch}] = at;
        if (down) arrivals[{OpKind::backward, to, op.micro_batch}] = at;
        if (down) arrivals[{OpKind::backward_input, to, op.micro_batch}] = at;
      }
    return arrivals;
  }

  std::int64_t arrival(const Op& op, StageId to, std::int64_t& link_free) const {
    if (rank_of_.at(op.stage) == rank_of_.at(to) || costs_.transfers == TransferMode::ignored) return end(op);
    const BoundaryCosts& boundary = costs_.boundaries[std::min(op.stage, to).index()];
    const std::int64_t busy = boundary.link.bandwidth ? boundary.bytes.value : 0;  // at byte_per_ns
    const std::int64_t latency = boundary.link.latency.count();
    if (costs_.transfers == TransferMode::uncontended) return end(op) + busy + latency;
    link_free = std::max(link_free, end(op)) + busy;
    return link_free + latency;
  }

  const Schedule& schedule_;
  const PipelineCosts& costs_;
  std::map<Op, std::int64_t> start_;
  std::map<StageId, std::int64_t> rank_of_;
  std::set<std::pair<StageId, MicrobatchId>> apart_;  // recomputed by an R op
};

Nanoseconds makespan(const Schedule& schedule, const PipelineCosts& costs) {
  return simulate(schedule, costs).value().makespan;
}

std::int64_t busy_time(const Timeline& timeline) {
  std::int64_t busy = 0;
  for (const Span& span : timeline.spans) busy += (span.end - span.start).count();
  return busy;
}

struct RandomPipeline {
  Schedule schedule;
  PipelineCosts costs;
};

RandomPipeline random_pipeline(test::Random& random) {
  const std::int64_t stages = random.between(1, 6);
  return {test::random_schedule(random, stages), test::random_costs(random, stages)};
}

}  // namespace

TEST_CASE("simulate: equals the relaxation op by op on 600 random orders, times, links and modes") {
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    CAPTURE(seed);
    test::Random random(seed);
    const auto [schedule, costs] = random_pipeline(random);
    const Timeline timeline = simulate(schedule, costs).value();
    const Relaxation relaxed(schedule, costs);
    std::size_t op_count = 0;
    for (const auto& row : schedule.ranks) op_count += row.size();
    REQUIRE(timeline.spans.size() == op_count);
    for (const Span& span : timeline.spans) {
      CHECK(span.start.count() == relaxed.start(span.op));
      CHECK(span.end.count() == relaxed.end(span.op));
    }
    CHECK(early_starts(timeline).empty());
  }
}

TEST_CASE("simulate: several stages on a rank equal the relaxation too, and send nothing between them") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    test::Random random(seed);
    const std::int64_t stages = random.between(2, 6), ranks = random.between(1, stages - 1);
    const Schedule schedule = test::random_order(random, stages, random.between(1, 5), ranks);
    const PipelineCosts costs = test::random_costs(random, stages);
    const Timeline timeline = simulate(schedule, costs).value();
    const Relaxation relaxed(schedule, costs);
    for (const Span& span : timeline.spans) CHECK(span.start.count() == relaxed.start(span.op));
    if (ranks == 1) CHECK(timeline.transfers.empty());
  }
}

TEST_CASE("simulate: recomputation, fused or in ops of its own, equals the relaxation on 300 random orders") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    test::Random random(seed);
    const std::int64_t stages = random.between(1, 6);
    PipelineCosts costs = test::random_costs(random, stages);
    const std::vector<bool> recomputing = test::add_recomputation(random, costs);
    const Schedule schedule =
        test::random_order(random, stages, random.between(1, 5), random.between(1, stages), recomputing);
    const auto timeline = simulate(schedule, costs);
    REQUIRE(timeline.has_value());
    const Relaxation relaxed(schedule, costs);
    for (const Span& span : timeline->spans) {
      CHECK(span.start.count() == relaxed.start(span.op));
      CHECK(span.end.count() == relaxed.end(span.op));
    }
  }
}

TEST_CASE("simulate: gpipe and 1f1b with full recomputation take (m+p-1)(2F+X)") {
  for (const ScheduleKind kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b})
    for (std::int64_t p = 1; p <= 6; ++p)
      for (std::int64_t m = 1; m <= 12; ++m) {
        PipelineCosts costs = test::uniform_costs(p, test::stage_times(7, 5, 6));
        for (StageTimes& times : costs.times) times.recompute = times.forward;
        CHECK(makespan(make_schedule(kind, p, m), costs).count() == (m + p - 1) * (2 * 7 + 5 + 6));
      }
}

TEST_CASE("simulate: gpipe that recomputes early hides the first recomputation behind the wait") {
  // The last rank goes on with R and X at once; each rank before it has made its first R while it waits, and
  // then takes R and X like all others: m (2F+X) + (p-1)(F+X).
  for (std::int64_t p = 1; p <= 6; ++p)
    for (std::int64_t m = 1; m <= 8; ++m) {
      Plan plan;
      plan.schedule = ScheduleKind::gpipe;
      plan.micro_batch_count = m;
      plan.recompute_mode = RecomputeMode::early;
      for (std::int32_t i = 0; i < p; ++i)
        plan.stages.push_back({LayerId{i}, LayerId{i}, RankId{i}, {DeviceId{i}}, 1, {LayerId{i}}});
      PipelineCosts costs = test::uniform_costs(p, test::stage_times(7, 5, 6));
      for (StageTimes& times : costs.times) times.recompute = times.forward;
      CHECK(makespan(make_schedule(plan).value(), costs).count() ==
            m * (2 * 7 + 5 + 6) + (p - 1) * (7 + 5 + 6));
    }
}

TEST_CASE("simulate: recomputation and a split backward do not go together, nor R without recomputation") {
  const auto op = [](OpKind kind) { return Op{kind, StageId{0}, MicrobatchId{0}}; };
  using enum OpKind;
  Schedule split{ScheduleKind::gpipe, false, 1, 1, {}};
  split.ranks.push_back({op(forward), op(backward_input), op(backward_weight)});
  Schedule apart{ScheduleKind::gpipe, false, 1, 1, {}};
  apart.ranks.push_back({op(forward), op(recompute), op(backward)});
  PipelineCosts costs = test::uniform_costs(1, test::stage_times(1, 1, 1));
  CHECK(simulate(split, costs).has_value());
  CHECK(simulate(apart, costs).error().message == "R0.0: stage 0 recomputes nothing");
  CHECK(simulate(apart, costs).error().where == "schedule#/ranks/0/1");
  costs.times[StageId{0}].recompute = Nanoseconds{1};
  CHECK(simulate(apart, costs).has_value());
  CHECK(simulate(split, costs).error().message ==
        "B0.0: stage 0 recomputes, so its backward cannot be split, wanted X");
}

TEST_CASE("simulate: all-reduce and step of all stages of a rank come after its last op") {
  PipelineCosts costs = test::uniform_costs(2, test::stage_times(1, 1, 0));
  costs.times[StageId{0}].all_reduce = Nanoseconds{10};
  costs.times[StageId{1}].all_reduce = Nanoseconds{100};
  costs.times[StageId{1}].optimizer = Nanoseconds{1000};
  test::Random random(1);
  const Timeline together = simulate(test::random_order(random, 2, 1, 1), costs).value();
  CHECK(together.iteration == together.makespan + Nanoseconds{10 + 100 + 1000});
  const Timeline apart = simulate(make_schedule(ScheduleKind::gpipe, 2, 1), costs).value();
  CHECK(apart.makespan == Nanoseconds{4});
  CHECK(apart.iteration == Nanoseconds{3 + 100 + 1000});
}

TEST_CASE("simulate: spans and transfers are sorted, each micro-batch crosses each boundary once each way") {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    test::Random random(seed);
    const auto [schedule, costs] = random_pipeline(random);
    const Timeline timeline = simulate(schedule, costs).value();
    CHECK(std::is_sorted(timeline.spans.begin(), timeline.spans.end(), [](const Span& a, const Span& b) {
      return std::pair(a.start, a.rank) < std::pair(b.start, b.rank);
    }));
    CHECK(std::is_sorted(
        timeline.transfers.begin(), timeline.transfers.end(), [](const auto& a, const auto& b) {
          return std::tuple(a.start, a.from, a.direction) < std::tuple(b.start, b.from, b.direction);
        }));
    const auto crossings = 2 * (schedule.stage_count - 1) * schedule.micro_batch_count;
    CHECK(timeline.transfers.size() == static_cast<std::size_t>(crossings));
    for (const Transfer& transfer : timeline.transfers)
      CHECK(transfer.bytes == costs.boundaries[std::min(transfer.from, transfer.to).index()].bytes);
  }
}

TEST_CASE("simulate: gpipe and 1f1b idle exactly (p-1)/(m+p-1) of the time on uniform stages") {
  for (const ScheduleKind kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b})
    for (std::int64_t p = 1; p <= 9; ++p)
      for (std::int64_t m = 1; m <= 20; ++m) {
        INFO("p=", p, " m=", m, " ", spelt(kind));
        const auto timeline =
            simulate(make_schedule(kind, p, m), test::uniform_costs(p, test::stage_times(7, 5, 6)));
        const std::int64_t total = p * timeline->makespan.count(), idle = total - busy_time(*timeline);
        CHECK(idle * (m + p - 1) == (p - 1) * total);
        CHECK(timeline->makespan.count() == (m + p - 1) * (7 + 5 + 6));
      }
}

TEST_CASE("simulate: naive takes m p (F+X)") {
  for (std::int64_t p = 1; p <= 6; ++p)
    for (std::int64_t m = 1; m <= 6; ++m)
      CHECK(makespan(make_schedule(ScheduleKind::naive, p, m),
                     test::uniform_costs(p, test::stage_times(3, 2, 4))) == Nanoseconds{m * p * (3 + 2 + 4)});
}

TEST_CASE("simulate: 1f1b pays 2c(p-1)/p more per micro-batch for a latency of c, gpipe pays nothing") {
  // The loop of p - r micro-batches in flight caps 1f1b; difference of two long runs, a multiple of p apart.
  for (const std::int64_t p : {2, 4, 8}) {
    const PipelineCosts costs = test::uniform_costs(p, test::stage_times(100, 100, 100), 40);
    const auto more = [&](ScheduleKind kind) {
      return (makespan(make_schedule(kind, p, 12 * p), costs) -
              makespan(make_schedule(kind, p, 11 * p), costs))
          .count();
    };
    CHECK(more(ScheduleKind::one_f_one_b) == p * 300 + 2 * 40 * (p - 1));
    CHECK(more(ScheduleKind::gpipe) == p * 300);
  }
}

TEST_CASE("simulate: doubling every time doubles the timeline") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    test::Random random(seed);
    auto [schedule, costs] = random_pipeline(random);
    const Timeline once = simulate(schedule, costs).value();
    for (StageTimes& times : costs.times)
      times = {times.forward * 2, times.backward_input * 2, times.backward_weight * 2, times.optimizer * 2};
    for (BoundaryCosts& boundary : costs.boundaries) {
      boundary.link.latency *= 2;
      boundary.bytes = boundary.bytes * 2;
    }
    const Timeline twice = simulate(schedule, costs).value();
    CHECK(twice.iteration == 2 * once.iteration);
    REQUIRE(twice.spans.size() == once.spans.size());
    for (std::size_t i = 0; i < once.spans.size(); ++i) {
      CHECK(twice.spans[i].op == once.spans[i].op);
      CHECK(twice.spans[i].start == 2 * once.spans[i].start);
    }
  }
}

TEST_CASE("simulate: more latency, more bytes or a longer op never make anything earlier") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    test::Random random(seed);
    auto [schedule, costs] = random_pipeline(random);
    const Nanoseconds before = makespan(schedule, costs);
    for (BoundaryCosts& boundary : costs.boundaries) {
      boundary.link.latency += Nanoseconds{random.between(0, 9)};
      boundary.bytes += Bytes{random.between(0, 9)};
    }
    for (StageTimes& times : costs.times) times.forward += Nanoseconds{random.between(0, 3)};
    CHECK(makespan(schedule, costs) >= before);
  }
}

TEST_CASE(
    "simulate: overlapped takes at least as long as uncontended, uncontended as ignored, ignored as the "
    "busiest rank") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    test::Random random(seed);
    RandomPipeline pipeline = random_pipeline(random);
    const auto in_mode = [&](TransferMode mode) {
      pipeline.costs.transfers = mode;
      return makespan(pipeline.schedule, pipeline.costs);
    };
    const Nanoseconds ignored = in_mode(TransferMode::ignored),
                      uncontended = in_mode(TransferMode::uncontended);
    CHECK(in_mode(TransferMode::overlapped) >= uncontended);
    CHECK(uncontended >= ignored);
    for (const StageTimes& times : pipeline.costs.times)
      CHECK(ignored >= pipeline.schedule.micro_batch_count * times.per_micro_batch());
  }
}

TEST_CASE("simulate: with infinite bandwidth overlapped and uncontended give the same timeline") {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    test::Random random(seed);
    auto [schedule, costs] = random_pipeline(random);
    for (BoundaryCosts& boundary : costs.boundaries) boundary.link.bandwidth.reset();
    costs.transfers = TransferMode::overlapped;
    const Timeline overlapped = simulate(schedule, costs).value();
    costs.transfers = TransferMode::uncontended;
    CHECK(simulate(schedule, costs).value() == overlapped);
  }
}

TEST_CASE("pass_link: each mode on a link that is free from 50 on") {
  BoundaryCosts boundary{Bytes{20}, {test::byte_per_ns, Nanoseconds{3}}, 1};
  const auto pass = [&](TransferMode mode, std::int64_t ready) {
    Nanoseconds free{50};
    const Passage passage = pass_link(mode, boundary, Nanoseconds{ready}, free);
    return std::tuple(passage.start.count(), passage.end.count(), free.count());
  };
  CHECK(pass(TransferMode::ignored, 10) == std::tuple(10, 10, 50));
  CHECK(pass(TransferMode::uncontended, 10) == std::tuple(10, 10 + 20 + 3, 10 + 20));
  CHECK(pass(TransferMode::overlapped, 10) == std::tuple(50, 50 + 20 + 3, 50 + 20));
  CHECK(pass(TransferMode::overlapped, 60) == std::tuple(60, 60 + 20 + 3, 60 + 20));
}

TEST_CASE("simulate: the iteration ends when the last rank has made its optimizer step") {
  // gpipe, p = 2, m = 1: rank 1 ends its backward at 3, rank 0 at 5.
  PipelineCosts costs = test::uniform_costs(2, test::stage_times(1, 1, 0));
  costs.times[StageId{0}].forward = Nanoseconds{2};
  const Schedule schedule = make_schedule(ScheduleKind::gpipe, 2, 1);
  const auto ends = [&](std::int64_t front, std::int64_t back) {
    costs.times[StageId{0}].optimizer = Nanoseconds{front};
    costs.times[StageId{1}].optimizer = Nanoseconds{back};
    const Timeline timeline = simulate(schedule, costs).value();
    CHECK(timeline.makespan == Nanoseconds{2 + 1 + 1 + 1});
    return timeline.iteration.count();
  };
  CHECK(ends(0, 0) == 5);
  CHECK(ends(0, 1) == 5);  // hidden behind rank 0
  CHECK(ends(3, 1) == 5 + 3);
  CHECK(ends(1, 10) == 4 + 10);
}

TEST_CASE("simulate: ops without duration keep the order of their rank") {
  const Schedule schedule = make_schedule(ScheduleKind::one_f_one_b, 3, 4);
  const Timeline timeline = simulate(schedule, test::uniform_costs(3, test::stage_times(0, 0, 0))).value();
  CHECK(timeline.makespan == Nanoseconds{0});
  PerId<RankId, std::vector<Op>> rows(3);
  for (const Span& span : timeline.spans) rows[span.rank].push_back(span.op);
  CHECK(rows == schedule.ranks);
  for (const RankId rank : ids<RankId>(3)) CHECK(timeline.memory[rank].peak_in_flight == 3 - rank.value);
}

TEST_CASE("simulate: an order that cannot run is returned as its fault") {
  Schedule schedule = make_schedule(ScheduleKind::gpipe, 2, 2);
  schedule.ranks[RankId{1}].pop_back();
  CHECK(simulate(schedule, test::uniform_costs(2, test::stage_times(1, 1, 1))).error().where ==
        "schedule#/ranks/1");
}

TEST_CASE("simulate: an order for other stages than the costs is refused") {
  const auto timeline =
      simulate(make_schedule(ScheduleKind::gpipe, 3, 2), test::uniform_costs(2, test::stage_times(1, 1, 1)));
  CHECK(timeline.error().message == "an order of 3 stages, wanted 2 as in the plan");
}

TEST_CASE("simulate: times, latencies and memory that add up beyond the limitnd are refused") {
  const Schedule schedule = make_schedule(ScheduleKind::gpipe, 2, 4);
  PipelineCosts costs = test::uniform_costs(2, test::stage_times(std::int64_t{1} << 60, 1, 1));
  CHECK_FALSE(simulate(schedule, costs).has_value());
  costs = test::uniform_costs(2, test::stage_times(1, 1, 1), std::int64_t{1} << 59);  // 2 * 4 transfers
  CHECK_FALSE(simulate(schedule, costs).has_value());
  costs.transfers = TransferMode::ignored;
  CHECK(simulate(schedule, costs).has_value());
  costs.memory[StageId{0}].activation_per_micro_batch = Bytes{std::int64_t{1} << 61};
  CHECK(simulate(schedule, costs).error().message.starts_with("memory of all stages"));
  costs = test::uniform_costs(2, test::stage_times(1, 1, 1));
  costs.times[StageId{0}].recompute = Nanoseconds{std::int64_t{1} << 60};
  CHECK(simulate(schedule, costs).error().message.starts_with("times of the iteration"));
  costs.times[StageId{0}].recompute = Nanoseconds{0};
  costs.times[StageId{1}].all_reduce = largest_total_time;
  CHECK(simulate(schedule, costs).error().message.starts_with("times of the iteration"));
  costs.times[StageId{1}].all_reduce = Nanoseconds{0};
  costs.memory[StageId{1}].deferred_per_micro_batch = Bytes{std::int64_t{1} << 61};
  CHECK(simulate(schedule, costs).error().message.starts_with("memory of all stages"));
}

TEST_CASE("simulate: a split backward lets the next stage start its gradient before the weights are done") {
  Schedule schedule{ScheduleKind::gpipe, false, 2, 1, {}};
  schedule.ranks.push_back({{OpKind::forward, StageId{0}, MicrobatchId{0}},
                            {OpKind::recompute, StageId{0}, MicrobatchId{0}},
                            {OpKind::backward, StageId{0}, MicrobatchId{0}}});
  schedule.ranks.push_back({{OpKind::forward, StageId{1}, MicrobatchId{0}},
                            {OpKind::backward_input, StageId{1}, MicrobatchId{0}},
                            {OpKind::backward_weight, StageId{1}, MicrobatchId{0}}});
  PipelineCosts costs = test::uniform_costs(2, test::stage_times(10, 20, 50));
  costs.times[StageId{0}].recompute = Nanoseconds{10};
  const Timeline timeline = simulate(schedule, costs).value();
  CHECK(timeline.makespan == Nanoseconds{10 + 10 + 20 + (20 + 50)});
  CHECK(timeline.spans[1].op.kind == OpKind::recompute);
  CHECK(timeline.spans[1].end == Nanoseconds{10 + 10});
}
