#pragma once

// The rows of a sweep: all settings and all results of a point, as table, CSV and document.

#include <optional>
#include <string>
#include <vector>

#include "planner/planner.hpp"
#include "simulator/report.hpp"

namespace pipeplan {

struct SweepRow {
  std::int64_t stages = 1;
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  TransferMode transfers = TransferMode::overlapped;
  std::optional<std::int64_t> micro_batch_size, micro_batch_count;  // absent if the point could not say
  std::string reason;  // why there is no plan; empty if there is one
  // Only with a plan:
  Nanoseconds slowest{}, lower_bound{}, iteration{};
  double bubble_fraction = 0, transfer_fraction = 0, samples_per_second = 0;
  Bytes peak_memory;  // the largest of all ranks
  std::vector<std::int64_t> sizes;
  bool pareto = false;
};

SweepRow empty_row(const PlanOptions& point);
Result<void> fill_row(SweepRow& row, const Plan& plan, const Profile& profile, Extrapolation extrapolation);

// Marks the rows that no other row beats: at least as many samples per second at no more peak memory, better
// in one.
void mark_pareto(std::vector<SweepRow>& rows);

std::string sweep_table(const std::vector<SweepRow>& rows);
std::string sweep_csv(const std::vector<SweepRow>& rows);
Json sweep_json(const std::vector<SweepRow>& rows, const Profile& profile);

}  // namespace pipeplan
