#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "tools/cli/artefact.hpp"
#include "tools/cli/flags.hpp"
#include "tools/cli/plan_flags.hpp"
#include "tools/commands/commands.hpp"
#include "tools/commands/sweep_table.hpp"

namespace pipeplan {
namespace {

constexpr std::size_t most_points = 100'000;

class Sweep : public Verb {
 public:
  [[nodiscard]] std::string name() const override { return "sweep"; }
  [[nodiscard]] std::string summary() const override {
    return "plan and simulate a grid of choices, a row each";
  }
  [[nodiscard]] std::string footer() const override {
    return "Example:\n"
           "  pipeplan sweep profile.json --stages 1..4 --microbatches 2,4,8,16 --microbatch-size 1,2,4 \\\n"
           "      --schedule gpipe,1f1b --csv\n"
           "Every row is planned exactly and simulated. Points without a plan keep their row, with the "
           "reason. The "
           "column\npareto marks rows that no other row beats in both samples per second and peak memory.";
  }

  void declare(CLI::App& app) override {
    app.add_option("profile", profile_, "profile document; '-' is stdin")->required();
    app.add_option("--stages", stages_, "numbers of stages, as 1..4 or 2,4,8")->required();
    app.add_option("--microbatches", micro_batches_, "micro-batches per iteration, as 2,4,8,16");
    app.add_option("--microbatch-size", sizes_, "samples per micro-batch, as 1,2,4");
    app.add_option("--schedule", schedules_, "orders of ops, of " + word_choice<ScheduleKind>())
        ->capture_default_str();
    app.add_flag("--csv", csv_, "print comma-separated values");
    flags_.declare(app);
    artefact_.declare(app, "the sweep");
  }

  Result<ExitCode> run(Terminal& terminal) override {
    if (csv_ && artefact_.json) return bad_usage("both --csv and --json are given", "leave one of them out");
    PIPEPLAN_TRY(profile, read_profile_file(profile_));
    PIPEPLAN_TRY(points, grid(profile));
    std::vector<SweepRow> rows;
    for (const PlanOptions& point : points) {
      PIPEPLAN_TRY(row, evaluate(profile, point));
      rows.push_back(row);
      terminal.progress("sweeping", static_cast<std::int64_t>(rows.size()),
                        static_cast<std::int64_t>(points.size()));
    }
    terminal.finish_progress();
    mark_pareto(rows);
    if (flags_.assumes_machine())
      terminal.note("no --cluster: as many equal devices as stages, unlimited memory, free transfers");
    if (!artefact_.output.empty() && csv_)
      PIPEPLAN_CHECK(write_text_file(artefact_.output, sweep_csv(rows)));
    else
      PIPEPLAN_CHECK(artefact_.deliver(sweep_json(rows, profile)));
    if (!artefact_.takes_stdout()) terminal.print(csv_ ? sweep_csv(rows) : sweep_table(rows));
    return ExitCode::done;
  }

 private:
  using Counts = std::vector<std::optional<std::int64_t>>;

  static Result<Counts> optional_counts(const std::string& text, const char* flag) {
    if (text.empty()) return Counts{std::nullopt};
    PIPEPLAN_TRY(counts, parse_counts(text, flag));
    return Counts(counts.begin(), counts.end());
  }

  [[nodiscard]] Result<std::vector<PlanOptions>> grid(const Profile& profile) const {
    PIPEPLAN_TRY(base, flags_.options());
    PIPEPLAN_TRY(stages, parse_counts(stages_, "--stages"));
    PIPEPLAN_TRY(counts, optional_counts(micro_batches_, "--microbatches"));
    PIPEPLAN_TRY(sizes, optional_counts(sizes_, "--microbatch-size"));
    PIPEPLAN_TRY(words, parse_list(schedules_, "--schedule"));
    if (sizes_.empty() && !base.global_batch) sizes = Counts(1, profiled_sizes(profile).front());
    if (stages.size() * counts.size() * sizes.size() * words.size() > most_points)
      return bad_usage(fmt::format("the grid has more than {} points", most_points));
    std::vector<PlanOptions> points;
    for (const std::string& word : words) {
      PIPEPLAN_TRY(schedule, parse_word<ScheduleKind>(word, "--schedule"));
      for (const auto& size : sizes)
        for (const auto& count : counts)
          for (const std::int64_t stage_count : stages) {
            PlanOptions point = base;
            point.schedule = schedule;
            point.micro_batch_size = size;
            point.micro_batch_count = count;
            point.fewest_stages = point.most_stages = stage_count;
            points.push_back(point);
          }
    }
    return points;
  }

  // A point that cannot be planned is a row with its reason, not the end of the sweep.
  [[nodiscard]] Result<SweepRow> evaluate(const Profile& profile, const PlanOptions& point) const {
    PIPEPLAN_TRY(cluster, flags_.machine(*point.most_stages));
    SweepRow row = empty_row(point);
    auto answer = make_plan(profile, cluster, point);
    if (!answer) {
      row.reason = answer.error().message;
      return row;
    }
    if (answer->outcome == PlanOutcome::infeasible) {
      row.reason = fmt::format("does not fit in memory: needs {} on every device",
                               display(answer->infeasible.smallest_memory));
      return row;
    }
    PIPEPLAN_CHECK(fill_row(row, answer->plan, profile, point.extrapolation));
    return row;
  }

  std::string profile_, stages_, micro_batches_, sizes_, schedules_ = "1f1b";
  bool csv_ = false;
  PlanFlags flags_;
  ArtefactFlags artefact_;
};

}  // namespace

std::unique_ptr<Verb> sweep_command() { return std::make_unique<Sweep>(); }

}  // namespace pipeplan
