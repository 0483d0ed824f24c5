#include "tools/commands/report_text.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tools/cli/table.hpp"
#include "tools/commands/plan_table.hpp"

namespace pipeplan {
namespace {

std::string percent(double fraction) { return fmt::format("{:.1f} %", 100 * fraction); }

std::string closed_cell(const Report& report, double (*of)(const ClosedForm&)) {
  return report.closed_form ? percent(of(*report.closed_form)) : "-";
}

std::string bubble_table(const Report& report) {
  Table table({{"quantity", Table::Align::left}, {"simulated"}, {"closed form"}, {"is", Table::Align::left}});
  table.add({"bubble fraction", percent(report.bubble_fraction),
             closed_cell(report, [](const ClosedForm& form) { return form.bubble_fraction; }),
             "idle over total, by the makespan"});
  table.add({"bubble ratio", percent(report.bubble_ratio),
             closed_cell(report, [](const ClosedForm& form) { return form.bubble_ratio; }),
             "idle over useful time"});
  table.add({"bubble fraction of span", percent(report.bubble_fraction_span), "-",
             "idle over total, by the longest rank alone"});
  table.add({"utilization", percent(report.utilization),
             closed_cell(report, [](const ClosedForm& form) { return 1 - form.bubble_fraction; }),
             "1 - bubble fraction"});
  table.add(
      {"transfer share", percent(report.transfer_fraction), "-", "transfers over transfers and busy time"});
  return table.text();
}

// With a column for recomputation only where there is any.
std::string rank_table(const Report& report) {
  const bool recomputes =
      std::ranges::any_of(report.ranks, [](const RankReport& it) { return it.recompute_fraction > 0; });
  std::vector<Table::Column> columns{
      {"rank"}, {"busy"}, {"idle"}, {"in flight"}, {"peak memory"}, {"at"}, {"made of", Table::Align::left}};
  if (recomputes) columns.insert(columns.begin() + 2, Table::Column{"recomputes"});
  Table table(columns);
  for (const RankId rank : ids<RankId>(report.ranks.size())) {
    const RankReport& it = report.ranks[rank];
    std::vector<std::string> cells{fmt::format("{}", rank.value),
                                   display(it.busy),
                                   display(it.idle),
                                   fmt::format("{}", it.peak_in_flight),
                                   display(it.peak_memory.total()),
                                   display(it.peak_at),
                                   memory_items(it.peak_memory)};
    if (recomputes) cells.insert(cells.begin() + 2, percent(it.recompute_fraction));
    table.add(cells);
  }
  return table.text();
}

}  // namespace

std::string report_text(const Report& report) {
  std::string text = fmt::format("iteration {} (makespan {} + {} of the optimizer step that is not hidden)\n",
                                 display(report.iteration), display(report.makespan), display(report.step));
  if (report.all_reduce > Nanoseconds{0})
    text += fmt::format("all-reduce {} of that\n", display(report.all_reduce));
  if (report.samples_per_second)
    text += fmt::format("throughput {:.1f} samples/s\n", *report.samples_per_second);
  return text + "\n" + bubble_table(report) + "\n" + rank_table(report);
}

}  // namespace pipeplan
