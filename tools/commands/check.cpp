#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "planner/plan.hpp"
#include "simulator/check_schedule.hpp"
#include "simulator/check_timeline.hpp"
#include "tools/cli/artefact.hpp"
#include "tools/commands/commands.hpp"

namespace pipeplan {
namespace {

class Check : public Verb {
 public:
  [[nodiscard]] std::string name() const override { return "check"; }
  [[nodiscard]] std::string summary() const override {
    return "check a plan against its profile, an order of ops, a timeline";
  }
  [[nodiscard]] std::string footer() const override {
    return "Examples:\n"
           "  pipeplan check plan.json --profile vgg16.json\n"
           "  pipeplan check schedule.json\n"
           "A plan: every layer once and in order, no empty stage, devices that exist; with --profile\n"
           "its digest, memory under the limit, objective recomputed. An order of ops: nothing missing\n"
           "or doubled, no deadlock. A timeline: no op starts before what it needs. Exit code 4 if a\n"
           "check fails, 1 if the document cannot be read.";
  }

  void declare(CLI::App& app) override {
    app.add_option("input", input_, "plan, schedule or timeline document; '-' is stdin")->required();
    app.add_option("--profile", profile_, "profile that the plan was made for");
  }

  Result<ExitCode> run(Terminal& terminal) override {
    PIPEPLAN_TRY(json, read_json_file(input_));
    const std::string source = source_name(input_);
    const std::string schema = document_schema(json);
    if (schema == "pipeplan.schedule/1") return check_order(json, source, terminal);
    if (schema == "pipeplan.timeline/1") return check_starts(json, source, terminal);
    return check_plan(json, source, terminal);
  }

 private:
  static Result<ExitCode> check_order(const Json& json, const std::string& source, const Terminal& terminal) {
    PIPEPLAN_TRY(schedule, schedule_from_json(json, source));
    if (auto checked = check_schedule(schedule, source); !checked) return as_failed(checked.error());
    terminal.print(fmt::format("{}: {} ranks, {} stages, {} micro-batches: every op once, no deadlock\n",
                               source, schedule.ranks.size(), schedule.stage_count,
                               schedule.micro_batch_count));
    return ExitCode::done;
  }

  static Result<ExitCode> check_starts(const Json& json, const std::string& source,
                                       const Terminal& terminal) {
    PIPEPLAN_TRY(timeline, timeline_from_json(json, source));
    const std::vector<TooEarly> faults = early_starts(timeline);
    if (faults.empty()) {
      terminal.print(
          fmt::format("{}: {} ops, each after all that it needs\n", source, timeline.spans.size()));
      return ExitCode::done;
    }
    std::string message = early_start_text(faults.front());
    if (faults.size() > 1) message += fmt::format(" (and {} more)", faults.size() - 1);
    return fail(ErrorCode::check_failed, source, message);
  }

  Result<ExitCode> check_plan(const Json& json, const std::string& source, const Terminal& terminal) const {
    PIPEPLAN_TRY(plan, plan_from_json(json, source));
    std::string checked = "every layer once and in order, no empty stage";
    if (!profile_.empty()) {
      PIPEPLAN_TRY(profile, read_profile_file(profile_));
      if (auto against = check_plan_against(plan, profile); !against) return as_failed(against.error());
      checked += "; made for this profile, fits in memory, objective confirmed";
    }
    terminal.print(fmt::format("{}: {} stages, {} layers: {}\n", source, plan.stages.size(),
                               plan.layer_names.size(), checked));
    if (profile_.empty()) terminal.note("without --profile neither memory nor times were checked");
    return ExitCode::done;
  }

  // What check finds is a failed check, whatever other verbs make of it.
  static Failure as_failed(Error error) {
    error.code = ErrorCode::check_failed;
    return Failure(std::move(error));
  }

  std::string input_, profile_;
};

}  // namespace

std::unique_ptr<Verb> check_command() { return std::make_unique<Check>(); }

}  // namespace pipeplan
