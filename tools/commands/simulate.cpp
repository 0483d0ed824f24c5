#include "simulator/simulate.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "simulator/chart.hpp"
#include "simulator/report.hpp"
#include "simulator/trace.hpp"
#include "tools/cli/artefact.hpp"
#include "tools/cli/flags.hpp"
#include "tools/cli/freshness.hpp"
#include "tools/cli/order.hpp"
#include "tools/cli/synthetic_flags.hpp"
#include "tools/commands/commands.hpp"
#include "tools/commands/report_text.hpp"

namespace pipeplan {
namespace {

// What is simulated, wherever it comes from.
struct Scenario {
  Schedule schedule;
  PipelineCosts costs;
  std::optional<std::int64_t> global_batch;
  std::string title;
};

class Simulate : public Verb {
 public:
  [[nodiscard]] std::string name() const override { return "simulate"; }
  [[nodiscard]] std::string summary() const override {
    return "predict iteration, bubble and memory of a plan";
  }
  [[nodiscard]] std::string footer() const override {
    return "Examples:\n"
           "  pipeplan simulate plan.json --profile vgg16.json --trace trace.json\n"
           "  pipeplan simulate plan.json --profile vgg16.json --cluster 4xa100-80gb   # what if\n"
           "  pipeplan simulate --synthetic --stages 4 --microbatches 8 --schedule gpipe \\\n"
           "      --forward 24us --backward-input 36us --backward-weight 12us --latency 6us\n"
           "  pipeplan simulate --synthetic --stages 2 --microbatches 2 --forward 5us,11us --backward "
           "16us,59us\n"
           "Times of --synthetic: one value for all stages, or one per stage. The chart shows a row per "
           "rank: digits\n"
           "are forwards, letters backwards, dots idle time. --trace opens in Perfetto and chrome://tracing.";
  }

  void declare(CLI::App& app) override {
    app.add_option("plan", plan_, "plan document; '-' is stdin");
    app.add_option("--profile", profile_, "profile that the plan was made for");
    app.add_option("--cluster", cluster_, "another machine than the plan's: built-in name or document");
    app.add_option("--order", order_, "schedule document to simulate in place of the named order");
    app.add_flag("--force", force_, "go on although the profile is not the plan's");
    app.add_flag("--extrapolate", extrapolate_, "allow micro-batch sizes outside the profiled range");
    app.add_option("--trace", trace_, "write Chrome trace events to this file");
    app.add_option("--timeline", timeline_, "write the timeline document to this file");
    artefact_.declare(app, "the report");
    synthetic_.declare(app);
  }

  Result<ExitCode> run(Terminal& terminal) override {
    if (synthetic_.wanted && !plan_.empty())
      return bad_usage("both a plan and --synthetic are given", "leave one of them out");
    if (!synthetic_.wanted && plan_.empty())
      return bad_usage("no plan is given", "name a plan document, or play with --synthetic");
    if (const std::string flag = synthetic_.first_given(); !synthetic_.wanted && !flag.empty())
      return bad_usage(fmt::format("{} is for --synthetic, a plan has its own", flag),
                       "plan again with other choices, or play with --synthetic");
    PIPEPLAN_TRY(scenario, synthetic_.wanted ? synthetic_scenario() : planned_scenario(terminal));
    PIPEPLAN_TRY(timeline, simulate(scenario.schedule, scenario.costs));
    const Report report = summarize(timeline, scenario.schedule, scenario.costs, scenario.global_batch);
    PIPEPLAN_CHECK(artefact_.deliver(to_json(report)));
    if (!trace_.empty())
      PIPEPLAN_CHECK(write_text_file(trace_, document_text(trace_events(timeline, scenario.title))));
    if (!timeline_.empty()) PIPEPLAN_CHECK(write_text_file(timeline_, document_text(to_json(timeline))));
    for (const Warning& warning : report.warnings) terminal.warning(warning);
    if (!artefact_.takes_stdout()) show(timeline, report, scenario.title, terminal);
    return ExitCode::done;
  }

 private:
  static void show(const Timeline& timeline, const Report& report, const std::string& title,
                   const Terminal& terminal) {
    terminal.print(title + "\n\n" + text_chart(timeline, terminal.width(), terminal.color_on_stdout()) +
                   "\n" + report_text(report));
  }

  [[nodiscard]] Result<Scenario> synthetic_scenario() const {
    PIPEPLAN_TRY(synthetic, synthetic_.read());
    Scenario scenario{
        .schedule = synthetic.schedule, .costs = synthetic.costs, .global_batch = {}, .title = {}};
    PIPEPLAN_CHECK(take_order(scenario));
    scenario.title =
        fmt::format("synthetic: {} stages, {} micro-batches, schedule {}", scenario.costs.times.size(),
                    scenario.schedule.micro_batch_count, order_name(scenario.schedule));
    return scenario;
  }

  [[nodiscard]] Result<Scenario> planned_scenario(const Terminal& terminal) const {
    if (profile_.empty())
      return bad_usage("--profile is missing", "name the profile that the plan was made for");
    PIPEPLAN_TRY(plan, read_plan_file(plan_));
    PIPEPLAN_TRY(profile, read_profile_file(profile_));
    PIPEPLAN_CHECK(check_freshness(plan, profile, force_, terminal));
    if (!cluster_.empty()) {
      PIPEPLAN_TRY(cluster, load_cluster(cluster_));
      plan.cluster = cluster;
    }
    const auto extrapolation = extrapolate_ ? Extrapolation::allowed : Extrapolation::refused;
    PIPEPLAN_TRY(costs, pipeline_costs(plan, profile, plan.cluster, extrapolation));
    PIPEPLAN_TRY(ordered, plan_order(order_, plan, costs));
    return Scenario{.schedule = ordered.schedule,
                    .costs = ordered.costs,
                    .global_batch = plan.global_batch(),
                    .title = plan_title(plan, ordered.schedule)};
  }

  static std::string plan_title(const Plan& plan, const Schedule& schedule) {
    const std::string copies =
        plan.data_parallel == 1 ? "" : fmt::format(" in {} copies", plan.data_parallel);
    return fmt::format("{}: {} stages{} on {}, {} x {} samples, schedule {}", plan.model, plan.stages.size(),
                       copies, plan.cluster.name, plan.micro_batch_count, plan.micro_batch_size,
                       order_name(schedule));
  }

  [[nodiscard]] Result<void> take_order(Scenario& scenario) const {
    if (order_.empty()) return {};
    PIPEPLAN_TRY(ordered, order_from_file(order_, scenario.costs));
    scenario.schedule = ordered.schedule;
    scenario.costs = ordered.costs;
    return {};
  }

  static std::string order_name(const Schedule& schedule) {
    return schedule.named ? std::string(spelt(schedule.kind)) : "by hand";
  }

  std::string plan_, profile_, cluster_, order_, trace_, timeline_;
  bool force_ = false, extrapolate_ = false;
  SyntheticFlags synthetic_;
  ArtefactFlags artefact_;
};

}  // namespace

std::unique_ptr<Verb> simulate_command() { return std::make_unique<Simulate>(); }

}  // namespace pipeplan
