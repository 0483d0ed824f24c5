#pragma once

// The numbers that people ask of a timeline, by the definitions of the README: iteration, bubble by each
// definition, utilization, closed forms where they hold, memory per rank, the share of transfers. Document
// pipeplan.report/1.

#include <optional>

#include "models/base/json_file.hpp"
#include "models/base/warning.hpp"
#include "planner/cost.hpp"
#include "simulator/timeline.hpp"

namespace pipeplan {

struct RankReport {
  Nanoseconds busy{};
  Nanoseconds idle{};             // makespan - busy
  double recompute_fraction = 0;  // of busy: forwards that run again
  std::int64_t peak_in_flight = 0;
  MemoryUse peak_memory;
  Nanoseconds peak_at{};
  std::optional<Bytes> memory_limit;
  friend bool operator==(const RankReport&, const RankReport&) = default;
};

// What the formula says for uniform stages and no communication.
struct ClosedForm {
  Nanoseconds makespan{};
  double bubble_fraction = 0;
  double bubble_ratio = 0;
};

struct Report {
  Nanoseconds iteration{};
  Nanoseconds makespan{};
  Nanoseconds step{};               // iteration - makespan
  Nanoseconds all_reduce{};         // of step: what it would be shorter by without the all-reduces
  Nanoseconds span{};               // max over ranks of last end - first start
  double bubble_fraction = 0;       // 1 - sum busy / (p * makespan)
  double bubble_ratio = 0;          // sum idle / sum busy
  double bubble_fraction_span = 0;  // 1 - sum busy / (p * span)
  double utilization = 0;           // 1 - bubble_fraction
  // Time of all transfers (latency included) over that time plus all busy time. Like the others 0 where
  // nothing happens.
  double transfer_fraction = 0;
  std::optional<double> samples_per_second;
  std::optional<ClosedForm> closed_form;
  PerId<RankId, RankReport> ranks;
  std::vector<Warning> warnings;
};

// (m+p-1)(F+X) for GPipe and 1F1B, m p (F+X) for naive, if all stages take the same times, transfers are free
// and the schedule is a named one; nothing otherwise. X includes a fused recomputation; there is no form for
// one in ops of its own.
std::optional<ClosedForm> closed_form(const Schedule& schedule, const PipelineCosts& costs);

// `costs` gives the limits and whether a closed form holds.
Report summarize(const Timeline& timeline, const Schedule& schedule, const PipelineCosts& costs,
                 std::optional<std::int64_t> global_batch);
Result<Report> summarize(const Timeline& timeline, const Plan& plan, const Profile& profile);

Json to_json(const Report& report);

// The four readings of N/(N+k-1) for N devices and k micro-batches, both at least 1.
struct BubbleFormula {
  std::int64_t devices = 1, micro_batches = 1;
  [[nodiscard]] double utilization() const;      // k/(N+k-1)
  [[nodiscard]] double bubble_fraction() const;  // (N-1)/(N+k-1)
  [[nodiscard]] double card() const;             // N/(N+k-1)
  [[nodiscard]] double speed_up() const;         // N k/(N+k-1)
};

}  // namespace pipeplan
