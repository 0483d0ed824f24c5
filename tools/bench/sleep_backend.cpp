// How near the wall clock comes to the simulator when nothing but time passes: eight stages asleep, GPipe and
// 1F1B, equal and unequal ops of a few milliseconds, free and slow links. The median of several iterations
// against the simulated makespan; exit code 1 if any is off by more than 2 % although the machine was quiet.

#include <fmt/format.h>

#include <chrono>
#include <cmath>

#include "executor/sleep/sleep_executor.hpp"
#include "profiler/statistics.hpp"
#include "simulator/order_demand.hpp"
#include "simulator/simulate.hpp"

using namespace pipeplan;

namespace {

constexpr std::int64_t stages = 8;
constexpr double allowed_error_fraction = 0.02;

// `spread`: how much longer the last stage's ops are than the first's, as a part of the first's.
PipelineCosts make_costs(double spread, TransferMode transfers) {
  using std::chrono::microseconds;
  PipelineCosts costs;
  costs.transfers = transfers;
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    const double factor = 1 + spread * static_cast<double>(stage) / (stages - 1);
    const auto stretched = [factor](std::int64_t us) {
      return Nanoseconds{static_cast<std::int64_t>(factor * static_cast<double>(us) * 1000)};
    };
    costs.times.push_back({.forward = stretched(2000),
                           .backward_input = stretched(2000),
                           .backward_weight = stretched(2000),
                           .optimizer = stretched(500)});
    costs.memory.push_back({});
    if (stage + 1 < stages)
      costs.boundaries.push_back({.bytes = Bytes{1'000'000},
                                  .link = {.bandwidth = BytesPerSecond{1'000'000'000},  // 1 ms
                                           .latency = microseconds(200)}});
  }
  return costs;
}

// Prints one row; whether it is within what is allowed.
bool compare_once(ScheduleKind kind, double spread, TransferMode transfers) {
  const PipelineCosts costs = make_costs(spread, transfers);
  const Schedule schedule = make_schedule(kind, stages, 2 * stages);
  ExecuteOptions options;
  options.warm_ups = 1;
  options.iterations = 9;
  const auto predicted = simulate(schedule, costs);
  const auto measured = execute_asleep(schedule, no_replication(schedule), costs, options);
  if (!predicted || !measured) {
    fmt::print("failed: {}\n", predicted ? measured.error().message : predicted.error().message);
    return false;
  }
  const Nanoseconds makespan = measured->timeline.makespan;
  const double error = static_cast<double>((makespan - predicted->makespan).count()) /
                       static_cast<double>(predicted->makespan.count());
  fmt::print("{:<6} {:>6.1f} {:<12} {:>12} {:>12} {:>8.2f} % {:>12} {:>12}  {}\n", spelt(kind), spread,
             spelt(transfers), display(predicted->makespan), display(makespan), 100 * error,
             display(quantile(measured->iterations, 0.1)), display(quantile(measured->iterations, 0.9)),
             measured->load.sentence());
  return std::abs(error) <= allowed_error_fraction || !measured->load.clean();
}

}  // namespace

int main() {
  fmt::print("{:<6} {:>6} {:<12} {:>12} {:>12} {:>10} {:>12} {:>12}  {}\n", "order", "spread", "transfers",
             "simulated", "measured", "error", "P10", "P90", "load guard");
  bool all_within = true;
  for (const ScheduleKind kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b})
    for (const double spread : {0.0, 0.5})
      for (const TransferMode transfers : {TransferMode::ignored, TransferMode::overlapped})
        all_within = compare_once(kind, spread, transfers) && all_within;
  return all_within ? 0 : 1;
}
