#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "models/zoo/zoo.hpp"
#include "planner/cost.hpp"
#include "tools/cli/artefact.hpp"
#include "tools/cli/flags.hpp"
#include "tools/cli/table.hpp"
#include "tools/commands/commands.hpp"
#include "tools/commands/plan_table.hpp"
#include "tools/commands/profile_table.hpp"
#include "tools/commands/show_devices.hpp"

namespace pipeplan {
namespace {

enum class Form { table, sizes, bounds, json };

constexpr auto spellings(Form) {
  return std::to_array<Spelling<Form>>(
      {{Form::table, "table"}, {Form::sizes, "sizes"}, {Form::bounds, "bounds"}, {Form::json, "json"}});
}

std::string models_text() {
  Table table(
      {{"model", Table::Align::left}, {"layers"}, {"parameters"}, {"built with", Table::Align::left}});
  for (const ModelSpec& spec : {ModelSpec{MlpSpec{}}, ModelSpec{TransformerSpec{}}}) {
    const auto model = build_model(spec);
    PIPEPLAN_ASSERT(model.has_value());
    std::int64_t parameters = 0;
    for (const Layer& layer : model->layers()) parameters += layer.parameter_count;
    std::string flags;
    const Json json = to_json(spec);
    for (const auto& entry : json.items())
      if (entry.key() != "name") flags += fmt::format("--{} {} ", entry.key(), entry.value().dump());
    table.add(
        {model_name(spec), fmt::format("{}", model->layers().size()), fmt::format("{}", parameters), flags});
  }
  return table.text();
}

std::string clusters_text() {
  Table table(
      {{"cluster", Table::Align::left}, {"devices"}, {"memory each"}, {"link in a node"}, {"network"}});
  const auto link = [](const Link& it) {
    return fmt::format("{}, {}", it.bandwidth ? display(*it.bandwidth) : "infinite", display(it.latency));
  };
  for (const std::string& name : cluster_names()) {
    const auto cluster = named_cluster(name);
    PIPEPLAN_ASSERT(cluster.has_value());
    const auto& memory = cluster->type(DeviceId{0}).memory;
    table.add({name, fmt::format("{}", cluster->device_count()), memory ? display(*memory) : "unlimited",
               link(cluster->nodes.front().link), link(cluster->network)});
  }
  return table.text() +
         "\nAny COUNTxTYPE of these device types is built in; '--as json' prints one as a document.\n";
}

std::string plan_text(const Plan& plan) {
  Table table({{"stage"},
               {"devices", Table::Align::left},
               {"first layer", Table::Align::left},
               {"last layer", Table::Align::left},
               {"layers"},
               {"recomputed"}});
  for (const StageId stage : ids<StageId>(plan.stages.size())) {
    const StagePlan& it = plan.stages[stage];
    std::vector<std::int32_t> devices;
    for (const DeviceId device : it.devices) devices.push_back(device.value);
    table.add({fmt::format("{}", stage.value), fmt::format("{}", fmt::join(devices, ",")),
               plan.layer_names[it.first], plan.layer_names[it.last],
               fmt::format("{}", it.last.value - it.first.value + 1),
               fmt::format("{}", it.recompute.size())});
  }
  const std::string copies =
      plan.data_parallel > 1 ? fmt::format(", {} copies of the pipeline", plan.data_parallel) : "";
  return fmt::format(
      "{}: {} stages on {}, {} x {} samples{}, schedule {}\nslowest stage {}, lower bound {}\n\n{}",
      plan.model, plan.stages.size(), plan.cluster.name, plan.micro_batch_count, plan.micro_batch_size,
      copies, spelt(plan.schedule), display(plan.objective.value), display(plan.objective.lower_bound),
      table.text());
}

class Show : public Verb {
 public:
  [[nodiscard]] std::string name() const override { return "show"; }
  [[nodiscard]] std::string summary() const override {
    return "show devices, models, clusters, or what is in a file";
  }
  [[nodiscard]] std::string footer() const override {
    return "Examples:\n"
           "  pipeplan show clusters\n"
           "  pipeplan show 8xh100 --as json       # a built-in cluster as a document to edit\n"
           "  pipeplan show plan.json --as sizes   # 3,3,8,27\n"
           "  pipeplan show plan.json --as bounds  # 0,3,6,14,41";
  }

  void declare(CLI::App& app) override {
    app.add_option("what", what_, "devices, models, clusters, a built-in cluster, or a document")->required();
    app.add_option("--as", form_, "form: " + word_choice<Form>() + "; sizes and bounds are for plans")
        ->capture_default_str();
  }

  Result<ExitCode> run(Terminal& terminal) override {
    PIPEPLAN_TRY(form, parse_word<Form>(form_, "--as"));
    PIPEPLAN_TRY(text, content(form));
    terminal.print(text);
    return ExitCode::done;
  }

 private:
  [[nodiscard]] Result<std::string> content(Form form) const {
    if (what_ == "models") return models_text();
    if (what_ == "clusters") return clusters_text();
    if (what_ == "devices") return devices_text();
    if (const auto cluster = named_cluster(what_)) return document_text(to_json(*cluster));
    PIPEPLAN_TRY(json, read_json_file(what_));
    return document(json, form);
  }

  [[nodiscard]] Result<std::string> document(const Json& json, Form form) const {
    const std::string source = source_name(what_);
    const std::string schema = document_schema(json);
    if (schema == "pipeplan.plan/1") {
      PIPEPLAN_TRY(plan, plan_from_json(json, source));
      return plan_document(plan, form);
    }
    if (form == Form::sizes || form == Form::bounds)
      return bad_usage(fmt::format("--as {} is for plans, {} is '{}'", spelt(form), source, schema));
    if (form == Form::json) return document_text(json);
    if (schema == "pipeplan.profile/1") {
      PIPEPLAN_TRY(profile, profile_from_json(json, source));
      return profile_table(profile);
    }
    if (schema == "pipeplan.cluster/1") return document_text(json);
    return bad_input(source + "#/schema", fmt::format("is '{}', wanted a plan, profile or cluster", schema));
  }

  static Result<std::string> plan_document(const Plan& plan, Form form) {
    switch (form) {
      case Form::sizes: return fmt::format("{}\n", fmt::join(stage_sizes(plan), ","));
      case Form::bounds: return fmt::format("{}\n", fmt::join(stage_bounds(plan), ","));
      case Form::json: return document_text(to_json(plan));
      case Form::table: return plan_text(plan);
    }
    return std::string();
  }

  std::string what_, form_ = "table";
};

}  // namespace

std::unique_ptr<Verb> show_command() { return std::make_unique<Show>(); }

}  // namespace pipeplan
