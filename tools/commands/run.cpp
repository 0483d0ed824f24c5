#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "executor/comparison.hpp"
#include "executor/executor.hpp"
#include "models/layers/kernel_build.hpp"
#include "models/zoo/zoo.hpp"
#include "profiler/cpu_profiler.hpp"
#include "profiler/gpu/gpu_backend.hpp"
#include "simulator/simulate.hpp"
#include "simulator/trace.hpp"
#include "tools/cli/artefact.hpp"
#include "tools/cli/flags.hpp"
#include "tools/cli/freshness.hpp"
#include "tools/cli/order.hpp"
#include "tools/commands/commands.hpp"
#include "tools/commands/comparison_text.hpp"
#include "tools/commands/run_flags.hpp"

namespace pipeplan {
namespace {

// A plan with all that its execution needs.
struct Request {
  Plan plan;
  Profile profile;
  Schedule schedule;
  PipelineCosts costs;
  ExecuteOptions options;
};

class Run : public Verb {
 public:
  [[nodiscard]] std::string name() const override { return "run"; }
  [[nodiscard]] std::string summary() const override {
    return "run a plan and hold the prediction against it";
  }
  [[nodiscard]] std::string footer() const override {
    return "Examples:\n"
           "  pipeplan run plan.json --profile profile.json --backend cpu --iterations 15 --tolerance 10%\n"
           "  pipeplan run plan.json --profile profile.json --backend cuda --partitions green\n"
           "  pipeplan run plan.json --profile profile.json --backend sleep   # timing alone, any stage "
           "count\n"
           "  pipeplan run plan.json --profile profile.json --iterations 1000 \\\n"
           "      --checkpoint-dir ckpt --checkpoint-every 50 --keep 5 --resume\n"
           "cpu and cuda train for real: the plan's optimizer on synthetic data, micro-batch gradients "
           "accumulated, a\n"
           "stage per core or GPU partition. A second run on one stage must give the same losses, gradients "
           "and\n"
           "parameters: to the last bit on the CPU, within 1e-5 (2-norm per tensor) where replicas change "
           "the order of\n"
           "summation or a GPU computes. The predicted iteration is held against the median of the measured "
           "ones.\n"
           "Exit code 4: outside --tolerance, or training differs. On a busy machine (load guard) the times "
           "are not\n"
           "judged and the exit code is 0. A killed run goes on with --resume, bit-equal to one that was "
           "not killed.";
  }

  void declare(CLI::App& app) override {
    app.add_option("plan", plan_, "plan document; '-' is stdin")->required();
    app.add_option("--profile", profile_, "profile that the plan was made for")->required();
    flags_.declare(app);
    app.add_option("--order", order_, "schedule document to run in place of the named order");
    app.add_option("--tolerance", tolerance_, "largest error of the predicted iteration, as 10%");
    app.add_flag("--no-equivalence", no_equivalence_, "leave the single-stage run out");
    app.add_flag("--force", force_, "go on although profile or machine are not the plan's");
    app.add_option("--trace", trace_, "write Chrome trace events of the median iteration to this file");
    artefact_.declare(app, "the comparison");
  }

  Result<ExitCode> run(Terminal& terminal) override {
    PIPEPLAN_TRY(request, read_request(terminal));
    PIPEPLAN_TRY(predicted, simulate(request.schedule, request.costs));
    PIPEPLAN_TRY(outcome, execute_plan(request, terminal));
    outcome.tolerance = tolerance_fraction_;
    outcome.shares_cores = request.options.share_cores;
    outcome.profile_is_clean = request.options.backend != Backend::cpu ||
                               request.profile.source.setting(load_guard_setting) != "busy";
    if (!outcome.execution.iterations.empty())
      outcome.comparison = compare(predicted, outcome.execution.timeline);
    PIPEPLAN_CHECK(deliver(request, outcome, terminal));
    return outcome.failed() ? ExitCode::check_failed : ExitCode::done;
  }

 private:
  Result<Request> read_request(const Terminal& terminal) {
    PIPEPLAN_TRY(plan, read_plan_file(plan_));
    PIPEPLAN_TRY(profile, read_profile_file(profile_));
    PIPEPLAN_TRY(options, flags_.options(plan));
    if (!tolerance_.empty()) {
      PIPEPLAN_TRY(fraction, parse_fraction(tolerance_, "--tolerance"));
      tolerance_fraction_ = fraction;
    }
    PIPEPLAN_CHECK(check_freshness(plan, profile, force_, terminal));
    if (trains(options.backend)) PIPEPLAN_CHECK(check_training(plan, profile, options.backend));
    PIPEPLAN_TRY(costs, pipeline_costs(plan, profile, plan.cluster));
    PIPEPLAN_TRY(ordered, order_.empty() ? named_order(plan, costs) : plan_order(order_, plan, costs));
    return Request{plan, profile, ordered.schedule, ordered.costs, options};
  }

  // What training needs, and that the times were measured here: those of another machine or of other kernels
  // predict nothing.
  [[nodiscard]] Result<void> check_training(const Plan& plan, const Profile& profile, Backend backend) const {
    if (!profile.model_spec)
      return bad_input(profile_ + "#/model_spec",
                       "is null: this profile can be planned and simulated, not run",
                       "profile a network of 'pipeplan show models', or run --backend virtual or sleep");
    if (plan.state.optimizer == OptimizerRule::none || plan.state.total_factor)
      return bad_usage("training needs an optimizer, the plan is for another training state",
                       "plan with --optimizer sgd, momentum or adam");
    return backend == Backend::cpu ? check_cpu(profile) : check_gpu(profile);
  }

  [[nodiscard]] Result<void> check_cpu(const Profile& profile) const {
    return check_source(profile, cpu_device_name(), kernel_build());
  }

  [[nodiscard]] Result<void> check_gpu(const Profile& profile) const {
    PIPEPLAN_TRY(backend, cuda_backend());
    PIPEPLAN_TRY(devices, backend->devices());
    return check_source(profile, devices.front().name, backend->version());
  }

  [[nodiscard]] Result<void> check_source(const Profile& profile, const std::string& device,
                                          const std::string& kernels) const {
    const std::string measured_with = profile.source.setting(kernels_setting);
    if (force_ || (profile.source.device == device && measured_with == kernels)) return {};
    return bad_input(profile_ + "#/source",
                     fmt::format("was measured on '{}' ({}), this is '{}' ({})", profile.source.device,
                                 measured_with, device, kernels),
                     "profile again here, or --force to go on");
  }

  Result<RunOutcome> execute_plan(Request& request, Terminal& terminal) {
    ModelGraph model;
    if (trains(request.options.backend)) {
      PIPEPLAN_TRY(built, build_model(*request.profile.model_spec));
      model = std::move(built);
      request.options.seed =
          std::visit([](const auto& spec) { return spec.seed; }, *request.profile.model_spec);
    }
    const Closeness closeness = wanted_closeness(request.plan, request.schedule, request.options.backend);
    if (!closeness.to_the_last_bit()) request.options.recorded = 1;
    request.options.progress = [&](std::int64_t done, std::int64_t total) {
      terminal.progress("running", done, total);
    };
    PIPEPLAN_TRY(execution, execute(model, request.schedule, request.plan, request.costs, request.options));
    RunOutcome outcome;
    outcome.execution = std::move(execution);
    outcome.wanted_closeness = closeness;
    PIPEPLAN_CHECK(prove(model, request, outcome));
    terminal.finish_progress();
    return outcome;
  }

  // Runs the same training on one stage and compares.
  Result<void> prove(const ModelGraph& model, const Request& request, RunOutcome& outcome) const {
    if (no_equivalence_ || !outcome.execution.training) return {};
    ExecuteOptions single = request.options;
    single.warm_ups = single.recorded.value_or(single.warm_ups);
    single.iterations = 0;
    single.checkpoints.reset();
    PIPEPLAN_TRY(reference, execute_single_stage(model, request.plan, single));
    outcome.equivalence =
        compare_training(*outcome.execution.training, *reference.training, model, outcome.wanted_closeness);
    return {};
  }

  [[nodiscard]] Result<void> deliver(const Request& request, const RunOutcome& outcome,
                                     const Terminal& terminal) const {
    PIPEPLAN_CHECK(artefact_.deliver(run_json(outcome)));
    if (!trace_.empty() && outcome.comparison) {
      const std::string title =
          fmt::format("{}: measured, backend {}", request.plan.model, spelt(request.options.backend));
      PIPEPLAN_CHECK(write_text_file(trace_, document_text(trace_events(outcome.execution.timeline, title))));
    }
    for (const std::string& note : outcome.execution.notes) terminal.note(note);
    if (!artefact_.takes_stdout()) terminal.print(run_text(outcome));
    return {};
  }

  std::string plan_, profile_, order_, tolerance_, trace_;
  bool force_ = false, no_equivalence_ = false;
  std::optional<double> tolerance_fraction_;
  RunFlags flags_;
  ArtefactFlags artefact_;
};

}  // namespace

std::unique_ptr<Verb> run_command() { return std::make_unique<Run>(); }

}  // namespace pipeplan
