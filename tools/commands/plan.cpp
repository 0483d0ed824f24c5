#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "planner/infeasible.hpp"
#include "planner/planner.hpp"
#include "tools/cli/artefact.hpp"
#include "tools/cli/flags.hpp"
#include "tools/cli/plan_flags.hpp"
#include "tools/commands/commands.hpp"
#include "tools/commands/plan_table.hpp"

namespace pipeplan {
namespace {

class PlanVerb : public Verb {
 public:
  [[nodiscard]] std::string name() const override { return "plan"; }
  [[nodiscard]] std::string summary() const override {
    return "cut a profiled network into stages, with a proof";
  }
  [[nodiscard]] std::string footer() const override {
    return "Examples:\n"
           "  pipeplan plan vgg16.json --cluster 4xv100-16gb --microbatches 16 --schedule 1f1b -o plan.json\n"
           "  pipeplan plan profile.json --stages 2 --global-batch 32 --microbatch-size 4\n"
           "  pipeplan plan vgg16.json --stages 4 --transfers ignored --json\n"
           "  pipeplan plan vgg16.json --cluster 8xh100 --stages 4 --data-parallel 2 --recompute all\n"
           "Without --stages there are as many as devices, at most as many as layers; a range 2..8 chooses "
           "the best.\n"
           "Without --microbatches there are four per stage (GPipe's advice). Exit code 3: no split fits in "
           "memory;\n"
           "the tightest stage and the smallest memory that would work are printed.";
  }

  void declare(CLI::App& app) override {
    app.add_option("profile", profile_, "profile document; '-' is stdin")->required();
    app.add_option("--stages", stages_, "number of stages, or a range 2..8");
    app.add_option("--microbatches", micro_batches_, "micro-batches per iteration");
    app.add_option("--microbatch-size", micro_batch_size_, "samples per micro-batch");
    app.add_option("--schedule", schedule_, "order of ops: " + word_choice<ScheduleKind>())
        ->capture_default_str();
    flags_.declare(app);
    artefact_.declare(app, "the plan");
  }

  Result<ExitCode> run(Terminal& terminal) override {
    PIPEPLAN_TRY(profile, read_profile_file(profile_));
    PIPEPLAN_TRY(options, plan_options());
    if (flags_.assumes_machine() && !options.most_stages)
      return bad_usage("neither --stages nor --cluster is given",
                       "say on how many stages or on which machine to plan");
    PIPEPLAN_TRY(cluster, flags_.machine(options.most_stages.value_or(1)));
    PIPEPLAN_TRY(answer, make_plan(profile, cluster, options));
    if (flags_.assumes_machine())
      terminal.note("no --cluster: as many equal devices as stages, unlimited memory, free transfers");
    for (const Warning& warning : answer.warnings) terminal.warning(warning);
    return answer.outcome == PlanOutcome::planned ? deliver(answer.plan, profile, options, terminal)
                                                  : refuse(answer.infeasible, profile, terminal);
  }

 private:
  [[nodiscard]] Result<PlanOptions> plan_options() const {
    PIPEPLAN_TRY(options, flags_.options());
    PIPEPLAN_TRY(schedule, parse_word<ScheduleKind>(schedule_, "--schedule"));
    options.schedule = schedule;
    options.micro_batch_count = micro_batches_;
    options.micro_batch_size = micro_batch_size_;
    if (!stages_.empty()) {
      PIPEPLAN_TRY(counts, parse_counts(stages_, "--stages"));
      options.fewest_stages = counts.front();
      options.most_stages = counts.back();
      if (counts.back() - counts.front() + 1 != static_cast<std::int64_t>(counts.size()))
        return bad_usage(fmt::format("--stages is '{}', wanted one number or one range", stages_),
                         "compare single counts with 'pipeplan sweep'");
    }
    return std::move(options);
  }

  Result<ExitCode> deliver(Plan& plan, const Profile& profile, const PlanOptions& options,
                           const Terminal& terminal) const {
    PIPEPLAN_CHECK(predict(plan, profile, options.extrapolation));
    PIPEPLAN_CHECK(artefact_.deliver(to_json(plan)));
    if (artefact_.takes_stdout()) return ExitCode::done;
    PIPEPLAN_TRY(costs, pipeline_costs(plan, profile, plan.cluster, options.extrapolation));
    terminal.print(plan_table(plan, costs));
    return ExitCode::done;
  }

  // No plan is written where none exists; --json still gets its document.
  [[nodiscard]] Result<ExitCode> refuse(const Infeasible& infeasible, const Profile& profile,
                                        const Terminal& terminal) const {
    if (artefact_.json)
      PIPEPLAN_CHECK(write_text_file("-", document_text(infeasible_json(infeasible, profile))));
    else
      terminal.print(infeasible_text(infeasible, profile));
    return ExitCode::no_feasible_plan;
  }

  std::string profile_, stages_, schedule_ = "1f1b";
  std::optional<std::int64_t> micro_batches_, micro_batch_size_;
  PlanFlags flags_;
  ArtefactFlags artefact_;
};

}  // namespace

std::unique_ptr<Verb> plan_command() { return std::make_unique<PlanVerb>(); }

}  // namespace pipeplan
