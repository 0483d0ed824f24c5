#include "simulator/order_demand.hpp"

#include <doctest/doctest.h>

#include "planner/memory.hpp"
#include "simulator/simulate.hpp"
#include "tests/simulator/pipelines.hpp"

using namespace pipeplan;

TEST_CASE("order_demand: peaks and leads are the closed forms of the planner for p in 1..8 and m in 1..16") {
  for (const ScheduleKind kind : test::all_schedules)
    for (std::int64_t p = 1; p <= 8; ++p)
      for (std::int64_t m = 1; m <= 16; ++m) {
        INFO("p=", p, " m=", m, " ", spelt(kind));
        const OrderDemand demand = order_demand(make_schedule(kind, p, m));
        for (std::int64_t r = 0; r < p; ++r)
          CHECK(demand.peak_in_flight[id_of<RankId>(static_cast<std::size_t>(r))] ==
                in_flight(kind, p, m, r));
        REQUIRE(demand.forward_lead.size() == static_cast<std::size_t>(p - 1));
        for (std::int64_t r = 0; r + 1 < p; ++r) {
          CHECK(demand.forward_lead[static_cast<std::size_t>(r)] == receive_buffers(kind, p, m, r));
          CHECK(demand.backward_lead[static_cast<std::size_t>(r)] == receive_buffers(kind, p, m, r));
        }
      }
}

namespace {

// How many micro-batches really waited at once on their way over each boundary: sent (their op has started),
// but not yet taken in by the receiver.
std::int64_t most_waiting(const Timeline& timeline, std::int32_t boundary, bool gradients) {
  const auto is_exchange = [&](const Span& span, std::int32_t stage) {
    return span.op.stage.value == stage &&
           (gradients ? sends_gradient(span.op.kind) : span.op.kind == OpKind::forward);
  };
  std::int64_t most = 0;
  for (const Span& now : timeline.spans) {
    if (!is_exchange(now, gradients ? boundary + 1 : boundary)) continue;
    std::int64_t waiting = 0;
    for (const Span& span : timeline.spans) {
      if (is_exchange(span, gradients ? boundary + 1 : boundary) && span.start <= now.start) ++waiting;
      if (is_exchange(span, gradients ? boundary : boundary + 1) && span.start < now.start) --waiting;
    }
    most = std::max(most, waiting);
  }
  return most;
}

}  // namespace

TEST_CASE("order_demand: no simulated timeline of an order has more waiting than the lead of the order") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    test::Random random(seed);
    const std::int64_t stages = random.between(2, 5);
    const Schedule schedule = test::random_schedule(random, stages);
    const OrderDemand demand = order_demand(schedule);
    PipelineCosts costs = test::random_costs(random, stages);
    for (StageTimes& times : costs.times)
      times.forward += Nanoseconds{1}, times.backward_input += Nanoseconds{1};
    const Timeline timeline = simulate(schedule, costs).value();
    for (std::int32_t boundary = 0; boundary + 1 < stages; ++boundary) {
      CHECK(most_waiting(timeline, boundary, false) <=
            demand.forward_lead[static_cast<std::size_t>(boundary)]);
      CHECK(most_waiting(timeline, boundary, true) <=
            demand.backward_lead[static_cast<std::size_t>(boundary)]);
    }
  }
}

TEST_CASE("order_demand: where each stage has a rank its own peak is that of the rank") {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    test::Random random(seed);
    const std::int64_t stages = random.between(1, 5);
    const OrderDemand demand = order_demand(test::random_schedule(random, stages));
    CHECK(demand.stage_peak.values() == demand.peak_in_flight.values());
  }
}

TEST_CASE("order_demand: stages of one rank have peaks of their own, split backwards count from B to W") {
  using enum OpKind;
  const auto op = [](OpKind kind, std::int32_t stage, std::int32_t k) {
    return Op{kind, StageId{stage}, MicrobatchId{k}};
  };
  Schedule schedule{ScheduleKind::gpipe, false, 2, 2, {}};
  schedule.ranks.push_back({op(forward, 0, 0), op(forward, 0, 1), op(forward, 1, 0), op(backward, 1, 0),
                            op(forward, 1, 1), op(backward, 1, 1), op(backward_input, 0, 0),
                            op(backward_input, 0, 1), op(backward_weight, 0, 0), op(backward_weight, 0, 1)});
  const OrderDemand demand = order_demand(schedule);
  CHECK(demand.peak_in_flight.values() == std::vector<std::int64_t>{3});
  CHECK(demand.stage_peak.values() == std::vector<std::int64_t>{2, 1});
  CHECK(demand.stage_split_peak.values() == std::vector<std::int64_t>{2, 0});
}

namespace {

// Boundaries with buffers of 10, 11, … bytes for activations and 20, 21, … for gradients.
PipelineCosts with_buffers(PipelineCosts costs) {
  std::int64_t more = 0;
  for (BoundaryCosts& boundary : costs.boundaries) {
    boundary.activation_buffer = Bytes{10 + more};
    boundary.gradient_buffer = Bytes{20 + more++};
  }
  return costs;
}

}  // namespace

TEST_CASE("fit_to_order: each direction has as many buffers as its sender can lead") {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    test::Random random(seed);
    const std::int64_t stages = random.between(2, 5);
    const OrderDemand demand = order_demand(test::random_schedule(random, stages));
    const PipelineCosts costs = fit_to_order(with_buffers(test::random_costs(random, stages)), demand);
    for (const StageId stage : ids<StageId>(costs.memory.size())) {
      const auto at = stage.index();
      const std::int64_t before = at == 0 ? 0 : demand.forward_lead[at - 1] * (10 + stage.value - 1);
      const std::int64_t behind =
          stage.value + 1 == stages ? 0 : demand.backward_lead[at] * (20 + stage.value);
      CHECK(costs.memory[stage].constant[MemoryItem::communication] == Bytes{before + behind});
    }
  }
}

TEST_CASE("fit_to_order: a named schedule already has the buffers that it needs") {
  for (const ScheduleKind kind : test::all_schedules) {
    PipelineCosts costs = with_buffers(test::uniform_costs(4, test::stage_times(1, 1, 1)));
    for (std::int64_t s = 0; s < 3; ++s) {
      BoundaryCosts& boundary = costs.boundaries[static_cast<std::size_t>(s)];
      const StageId from = id_of<StageId>(static_cast<std::size_t>(s));
      boundary.receive_buffers = receive_buffers(kind, 4, 6, s);
      costs.memory[from].constant[MemoryItem::communication] +=
          boundary.gradient_buffer * boundary.receive_buffers;
      costs.memory[from.next()].constant[MemoryItem::communication] +=
          boundary.activation_buffer * boundary.receive_buffers;
    }
    CHECK(fit_to_order(costs, order_demand(make_schedule(kind, 4, 6))) == costs);
  }
}
