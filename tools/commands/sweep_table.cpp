#include "tools/commands/sweep_table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "simulator/simulate.hpp"
#include "tools/cli/table.hpp"

namespace pipeplan {
namespace {

std::string optional_count(const std::optional<std::int64_t>& count) {
  return count ? fmt::format("{}", *count) : std::string();
}

// Quoted as RFC 4180 asks.
std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

bool beats(const SweepRow& a, const SweepRow& b) {
  const bool no_worse = a.samples_per_second >= b.samples_per_second && a.peak_memory <= b.peak_memory;
  return no_worse && (a.samples_per_second > b.samples_per_second || a.peak_memory < b.peak_memory);
}

Json optional_json(const std::optional<std::int64_t>& count) { return count ? Json(*count) : Json(nullptr); }

Json row_json(const SweepRow& row) {
  Json json = {{"schedule", spelt(row.schedule)},
               {"transfers", spelt(row.transfers)},
               {"stages", row.stages},
               {"micro_batch_size", optional_json(row.micro_batch_size)},
               {"micro_batch_count", optional_json(row.micro_batch_count)},
               {"feasible", row.reason.empty()},
               {"reason", row.reason}};
  if (!row.reason.empty()) return json;
  json["slowest_stage_ns"] = row.slowest.count();
  json["lower_bound_ns"] = row.lower_bound.count();
  json["iteration_ns"] = row.iteration.count();
  json["bubble_fraction"] = row.bubble_fraction;
  json["transfer_fraction"] = row.transfer_fraction;
  json["samples_per_second"] = row.samples_per_second;
  json["peak_memory_bytes"] = row.peak_memory.value;
  json["stage_sizes"] = row.sizes;
  json["pareto"] = row.pareto;
  return json;
}

}  // namespace

SweepRow empty_row(const PlanOptions& point) {
  SweepRow row;
  row.stages = point.most_stages.value_or(1);
  row.schedule = point.schedule;
  row.transfers = point.transfers;
  row.micro_batch_size = point.micro_batch_size;
  row.micro_batch_count = point.micro_batch_count;
  return row;
}

Result<void> fill_row(SweepRow& row, const Plan& plan, const Profile& profile, Extrapolation extrapolation) {
  PIPEPLAN_TRY(costs, pipeline_costs(plan, profile, plan.cluster, extrapolation));
  PIPEPLAN_TRY(schedule, make_schedule(plan));
  PIPEPLAN_TRY(timeline, simulate(schedule, costs));
  const Report report = summarize(timeline, schedule, costs, plan.global_batch());
  row.micro_batch_size = plan.micro_batch_size;
  row.micro_batch_count = plan.micro_batch_count;
  row.slowest = plan.objective.value;
  row.lower_bound = plan.objective.lower_bound;
  row.iteration = report.iteration;
  row.bubble_fraction = report.bubble_fraction;
  row.transfer_fraction = report.transfer_fraction;
  row.samples_per_second = report.samples_per_second.value_or(0);
  for (const RankReport& rank : report.ranks)
    row.peak_memory = std::max(row.peak_memory, rank.peak_memory.total());
  row.sizes = stage_sizes(plan);
  return {};
}

void mark_pareto(std::vector<SweepRow>& rows) {
  for (SweepRow& row : rows)
    row.pareto = row.reason.empty() && std::ranges::none_of(rows, [&](const SweepRow& other) {
                   return other.reason.empty() && beats(other, row);
                 });
}

std::string sweep_table(const std::vector<SweepRow>& rows) {
  using enum Table::Align;
  Table table({{"schedule", left},
               {"stages"},
               {"size"},
               {"count"},
               {"iteration"},
               {"bubble"},
               {"samples/s"},
               {"peak memory"},
               {"pareto", left},
               {"stage sizes, or why not", left}});
  for (const SweepRow& row : rows) {
    const bool planned = row.reason.empty();
    table.add({std::string(spelt(row.schedule)), fmt::format("{}", row.stages),
               optional_count(row.micro_batch_size), optional_count(row.micro_batch_count),
               planned ? display(row.iteration) : "-",
               planned ? fmt::format("{:.1f} %", 100 * row.bubble_fraction) : "-",
               planned ? fmt::format("{:.2f}", row.samples_per_second) : "-",
               planned ? display(row.peak_memory) : "-", row.pareto ? "*" : "",
               planned ? fmt::format("{}", fmt::join(row.sizes, ",")) : row.reason});
  }
  return table.text();
}

std::string sweep_csv(const std::vector<SweepRow>& rows) {
  std::string text =
      "schedule,transfers,stages,micro_batch_size,micro_batch_count,feasible,slowest_stage_ns,lower_bound_ns,"
      "iteration_ns,bubble_fraction,transfer_fraction,samples_per_second,peak_memory_bytes,pareto,stage_"
      "sizes,reason\n";
  for (const SweepRow& row : rows) {
    text += fmt::format("{},{},{},{},{},", spelt(row.schedule), spelt(row.transfers), row.stages,
                        optional_count(row.micro_batch_size), optional_count(row.micro_batch_count));
    if (row.reason.empty())
      text += fmt::format("true,{},{},{},{:.6f},{:.6f},{:.6f},{},{},{},\n", row.slowest.count(),
                          row.lower_bound.count(), row.iteration.count(), row.bubble_fraction,
                          row.transfer_fraction, row.samples_per_second, row.peak_memory.value, row.pareto,
                          csv_cell(fmt::format("{}", fmt::join(row.sizes, " "))));
    else
      text += fmt::format("false,,,,,,,,false,,{}\n", csv_cell(row.reason));
  }
  return text;
}

Json sweep_json(const std::vector<SweepRow>& rows, const Profile& profile) {
  Json json = {{"schema", "pipeplan.sweep/1"},
               {"model", profile.model},
               {"profile_digest", profile_digest(profile)},
               {"points", Json::array()}};
  for (const SweepRow& row : rows) json["points"].push_back(row_json(row));
  return json;
}

}  // namespace pipeplan
