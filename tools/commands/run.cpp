#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "executor/comparison.hpp"
#include "executor/executor.hpp"
#include "models/layers/kernel_build.hpp"
#include "models/zoo/zoo.hpp"
#include "profiler/cpu_profiler.hpp"
#include "simulator/simulate.hpp"
#include "simulator/trace.hpp"
#include "tools/cli/artefact.hpp"
#include "tools/cli/flags.hpp"
#include "tools/cli/freshness.hpp"
#include "tools/commands/commands.hpp"
#include "tools/commands/comparison_text.hpp"

namespace pipeplan {
namespace {

class Run : public Command {
 public:
  [[nodiscard]] std::string name() const override { return "run"; }
  [[nodiscard]] std::string summary() const override {
    return "run a plan and hold the prediction against it";
  }
  [[nodiscard]] std::string footer() const override {
    return "Example:\n"
           "  pipeplan run plan.json --profile profile.json --backend cpu --iterations 15 --tolerance 10%\n"
           "Trains for real: SGD on synthetic data, micro-batch gradients accumulated, a stage per core. A "
           "second run on\n"
           "one stage must give the same losses, gradients and parameters to the last bit. The predicted "
           "iteration is "
           "held\nagainst the median of the measured ones. Exit code 4: outside --tolerance, or training "
           "differs. On a "
           "busy\nmachine (load guard) the times are not judged and the exit code is 0.";
  }

  void declare(CLI::App& app) override {
    app.add_option("plan", plan_, "plan document; '-' is stdin")->required();
    app.add_option("--profile", profile_, "profile that the plan was made for")->required();
    app.add_option("--backend", backend_, "where to run: " + word_choice<Backend>())->capture_default_str();
    app.add_option("--iterations", options_.iterations, "measured iterations")->capture_default_str();
    app.add_option("--warm-ups", options_.warm_ups,
                   "iterations before them, compared with the single-stage run")
        ->capture_default_str();
    app.add_option("--learning-rate", options_.learning_rate, "of SGD")->capture_default_str();
    app.add_option("--tolerance", tolerance_, "largest error of the predicted iteration, as 10%");
    app.add_flag("--share-cores", options_.share_cores,
                 "allow more stages than cores; times then mean nothing");
    app.add_flag("--no-equivalence", no_equivalence_, "leave the single-stage run out");
    app.add_flag("--force", force_, "go on although profile or machine are not the plan's");
    app.add_option("--trace", trace_, "write Chrome trace events of the median iteration to this file");
    artefact_.declare(app, "the comparison");
  }

  Result<ExitCode> run(Terminal& terminal) override {
    PIPEPLAN_TRY(plan, read_plan_file(plan_));
    PIPEPLAN_TRY(profile, read_profile_file(profile_));
    PIPEPLAN_CHECK(check_request(plan, profile, terminal));
    PIPEPLAN_TRY(costs, pipeline_costs(plan, profile, plan.cluster));
    PIPEPLAN_TRY(schedule, make_schedule(plan));
    PIPEPLAN_TRY(predicted, simulate(schedule, costs));
    PIPEPLAN_TRY(outcome, execute_plan(plan, profile, schedule, costs, terminal));
    outcome.tolerance = tolerance_fraction_;
    outcome.shares_cores = options_.share_cores;
    outcome.profile_is_clean =
        options_.backend != Backend::cpu || profile.source.setting(load_guard_setting) != "busy";
    outcome.comparison = compare(predicted, outcome.execution.timeline);
    PIPEPLAN_CHECK(deliver(plan, outcome, terminal));
    return outcome.failed() ? ExitCode::check_failed : ExitCode::done;
  }

 private:
  Result<void> check_request(const Plan& plan, const Profile& profile, const Terminal& terminal) {
    PIPEPLAN_TRY(backend, parse_word<Backend>(backend_, "--backend"));
    options_.backend = backend;
    if (options_.iterations < 1)
      return bad_usage(fmt::format("--iterations is {}, wanted at least 1", options_.iterations));
    if (!(options_.learning_rate >= 0 && options_.learning_rate <= 1e6))
      return bad_usage(fmt::format("--learning-rate is {}, wanted 0 to 1000000", options_.learning_rate));
    if (!tolerance_.empty()) {
      PIPEPLAN_TRY(fraction, parse_fraction(tolerance_, "--tolerance"));
      tolerance_fraction_ = fraction;
    }
    PIPEPLAN_CHECK(check_freshness(plan, profile, force_, terminal));
    return backend == Backend::cpu ? check_machine(plan, profile) : Result<void>{};
  }

  // Times from another machine or from other kernels predict nothing here.
  [[nodiscard]] Result<void> check_machine(const Plan& plan, const Profile& profile) const {
    if (!profile.model_spec)
      return bad_input(profile_ + "#/model_spec",
                       "is null: this profile can be planned and simulated, not run",
                       "profile a network of 'pipeplan show models', or run --backend virtual");
    if (plan.state.optimizer != OptimizerRule::sgd || plan.state.total_factor)
      return bad_usage("the cpu backend trains with plain SGD, the plan is for another optimizer state",
                       "plan with --optimizer sgd");
    const std::string kernels = profile.source.setting(kernels_setting);
    const bool same = profile.source.device == cpu_device_name() && kernels == kernel_build();
    if (same || force_) return {};
    return bad_input(profile_ + "#/source",
                     fmt::format("was measured on '{}' ({}), this is '{}' ({})", profile.source.device,
                                 kernels, cpu_device_name(), kernel_build()),
                     "profile again here, or --force to go on");
  }

  Result<RunOutcome> execute_plan(const Plan& plan, const Profile& profile, const Schedule& schedule,
                                  const PipelineCosts& costs, Terminal& terminal) {
    RunOutcome outcome;
    if (options_.backend == Backend::virtual_clock) {
      PIPEPLAN_TRY(execution, execute(ModelGraph(), schedule, plan, costs, options_));
      outcome.execution = std::move(execution);
      return outcome;
    }
    PIPEPLAN_TRY(model, build_model(*profile.model_spec));
    options_.seed = std::visit([](const auto& spec) { return spec.seed; }, *profile.model_spec);
    options_.progress = [&](std::int64_t done, std::int64_t total) {
      terminal.progress("training", done, total);
    };
    PIPEPLAN_TRY(execution, execute(model, schedule, plan, costs, options_));
    outcome.execution = std::move(execution);
    if (!no_equivalence_) {
      ExecuteOptions single = options_;
      single.iterations = 0;
      PIPEPLAN_TRY(reference, execute_single_stage(model, plan, profile, single));
      outcome.equivalence = compare_training(outcome.execution.training, reference.training, model);
    }
    terminal.finish_progress();
    return outcome;
  }

  [[nodiscard]] Result<void> deliver(const Plan& plan, const RunOutcome& outcome,
                                     const Terminal& terminal) const {
    PIPEPLAN_CHECK(artefact_.deliver(run_json(outcome)));
    if (!trace_.empty()) {
      const std::string title = fmt::format("{}: measured on {}", plan.model, backend_);
      PIPEPLAN_CHECK(write_text_file(trace_, document_text(trace_events(outcome.execution.timeline, title))));
    }
    if (!artefact_.takes_stdout()) terminal.print(run_text(outcome));
    return {};
  }

  std::string plan_, profile_, backend_ = "cpu", tolerance_, trace_;
  bool force_ = false, no_equivalence_ = false;
  std::optional<double> tolerance_fraction_;
  ExecuteOptions options_;
  ArtefactFlags artefact_;
};

}  // namespace

std::unique_ptr<Command> run_command() { return std::make_unique<Run>(); }

}  // namespace pipeplan
