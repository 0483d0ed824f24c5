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
