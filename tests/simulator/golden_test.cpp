// The reference cells that were computed independently: makespans, spans, bubbles, peaks and op orders.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "simulator/report.hpp"
#include "simulator/simulate.hpp"
#include "tests/simulator/pipelines.hpp"
#include "tests/support/reference.hpp"

using namespace pipeplan;

namespace {

const Json& golden() {
  static const Json json = read_json_file((test::data_folder() / "golden_schedules.json").string()).value();
  return json;
}

std::optional<Schedule> schedule_of(const Json& cell) {
  const auto kind = from_spelling<ScheduleKind>(cell["schedule"].get<std::string>());
  if (!kind) return std::nullopt;
  return make_schedule(*kind, cell["p"], cell["m"]);
}

std::string rank_text(const std::vector<Op>& row) {
  std::string text;
  for (const Op& op : row) {
    if (!text.empty()) text += ' ';
    text += op_text(op);
  }
  return text;
}

bool same_to_six_decimals(double value, const Json& expected) {
  return std::abs(value - expected.get<double>()) <= 0.5e-6 + 1e-12;
}

void check_cell(const Json& cell, const Schedule& schedule) {
  const std::int64_t stages = schedule.stage_count;
  const PipelineCosts costs = test::uniform_costs(stages, test::stage_times(cell["F"], cell["B"], cell["W"]),
                                                  cell.value("latency", 0));
  const Report report = summarize(simulate(schedule, costs).value(), schedule, costs, std::nullopt);
  CHECK(report.makespan.count() == cell["makespan"]);
  CHECK(report.span.count() == cell["span"]);
  if (cell.contains("bubble_makespan"))
    CHECK(same_to_six_decimals(report.bubble_fraction, cell["bubble_makespan"]));
  if (cell.contains("bubble_span"))
    CHECK(same_to_six_decimals(report.bubble_fraction_span, cell["bubble_span"]));
  for (const RankId rank : ids<RankId>(schedule.ranks.size())) {
    if (cell.contains("peak")) CHECK(report.ranks[rank].peak_in_flight == cell["peak"][rank.index()]);
    if (cell.contains("ops"))
      CHECK(rank_text(schedule.ranks[rank]) == cell["ops"][rank.index()].get<std::string>());
  }
}

}  // namespace

TEST_SUITE("reference") {
  TEST_CASE("golden cells: naive, gpipe and 1f1b agree in all 180 cells") {
    int cells = 0, with_ops = 0;
    for (const Json& cell : golden()["cases"]) {
      const auto schedule = schedule_of(cell);
      if (!schedule) continue;
      CAPTURE(cell.dump());
      check_cell(cell, *schedule);
      ++cells;
      with_ops += cell.contains("ops");
    }
    CHECK(cells == 3 * 60);
    CHECK(with_ops > 0);
  }

  TEST_CASE("golden cells with latency: gpipe and 1f1b agree in all 18 cells") {
    int cells = 0;
    for (const Json& cell : golden()["latency_cases"]["cases"]) {
      const auto schedule = schedule_of(cell);
      if (!schedule) continue;
      CAPTURE(cell.dump());
      check_cell(cell, *schedule);
      ++cells;
    }
    CHECK(cells == 2 * 9);
  }

  TEST_CASE("golden cells with uneven stages: gpipe and 1f1b end on every rank when the 24 cells say") {
    int cells = 0;
    for (const Json& cell : golden()["heterogeneous_cases"]["cases"]) {
      const auto schedule = schedule_of(cell);
      if (!schedule) continue;
      CAPTURE(cell.dump());
      PipelineCosts costs = test::uniform_costs(cell["p"], {}, cell["latency"]);
      for (const StageId stage : ids<StageId>(costs.times.size()))
        costs.times[stage] =
            test::stage_times(cell["stage_F"][stage.index()], cell["stage_X"][stage.index()], 0);
      const Timeline timeline = simulate(*schedule, costs).value();
      CHECK(timeline.makespan.count() == cell["makespan"]);
      std::vector<std::int64_t> ends(costs.times.size());
      for (const Span& span : timeline.spans)
        ends[span.rank.index()] = std::max(ends[span.rank.index()], span.end.count());
      CHECK(ends == cell["end_per_rank"].get<std::vector<std::int64_t>>());
      ++cells;
    }
    CHECK(cells == 2 * 12);
  }
}
