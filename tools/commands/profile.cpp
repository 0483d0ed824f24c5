#include "profiler/profiler.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "models/zoo/zoo.hpp"
#include "tools/cli/artefact.hpp"
#include "tools/cli/flags.hpp"
#include "tools/commands/commands.hpp"
#include "tools/commands/profile_table.hpp"

namespace pipeplan {
namespace {

enum class ModelChoice { mlp, transformer };

constexpr auto spellings(ModelChoice) {
  return std::to_array<Spelling<ModelChoice>>(
      {{ModelChoice::mlp, "mlp"}, {ModelChoice::transformer, "transformer"}});
}

class ProfileVerb : public Command {
 public:
  [[nodiscard]] std::string name() const override { return "profile"; }
  [[nodiscard]] std::string summary() const override {
    return "measure what each layer of a network costs here";
  }
  [[nodiscard]] std::string footer() const override {
    return "Examples:\n"
           "  pipeplan profile --model transformer --blocks 8 --hidden 256 --heads 4 --sequence 128 \\\n"
           "      --microbatch-size 1,2,4 --backend cpu -o profile.json\n"
           "  pipeplan profile --model mlp --layers 12 --width 512 --microbatch-size 64 -o mlp.json\n"
           "Whole training micro-batches run on one core; medians go into the profile. The load guard says "
           "whether the\n"
           "machine was quiet enough to believe them.";
  }

  void declare(CLI::App& app) override {
    app.add_option("--model", model_, "network to build and measure: " + word_choice<ModelChoice>())
        ->required();
    app.add_option("--seed", seed_, "seed of the weights and of the data")->capture_default_str();
    declare_transformer(app);
    declare_mlp(app);
    app.add_option("--microbatch-size", sizes_, "samples per micro-batch, as 1,2,4")->capture_default_str();
    app.add_option("--backend", backend_, "where to measure: cpu")->capture_default_str();
    app.add_option("--samples", samples_, "fewest and most samples, as 15..60")->capture_default_str();
    app.add_option("--longest", longest_, "longest measuring per micro-batch size, as 20s")
        ->capture_default_str();
    artefact_.declare(app, "the profile");
  }

  Result<ExitCode> run(Terminal& terminal) override {
    PIPEPLAN_TRY(options, profile_options());
    PIPEPLAN_TRY(spec, model_spec());
    PIPEPLAN_TRY(model, build_model(spec));
    options.progress = [&](std::int64_t done, std::int64_t total) {
      terminal.progress("profiling", done, total);
    };
    PIPEPLAN_TRY(profiling, profile_model(model, options));
    terminal.finish_progress();
    PIPEPLAN_CHECK(artefact_.deliver(to_json(profiling.profile)));
    if (!profiling.load.clean())
      terminal.warning({WarningCode::busy_machine, "load guard: " + profiling.load.sentence(),
                        "profile again on an idle machine"});
    else
      terminal.note(fmt::format("load guard: {}; seed {}", profiling.load.sentence(), seed_));
    if (!artefact_.takes_stdout()) terminal.print(profile_table(profiling.profile));
    return ExitCode::done;
  }

 private:
  void declare_transformer(CLI::App& app) {
    const auto add = [&](const char* flag, std::int64_t& value, const char* help) {
      transformer_flags_.push_back(
          app.add_option(flag, value, help)->group("transformer")->capture_default_str());
    };
    add("--blocks", transformer_.blocks, "blocks of attention and MLP");
    add("--hidden", transformer_.hidden, "width of a token");
    add("--heads", transformer_.heads, "attention heads");
    add("--sequence", transformer_.sequence, "tokens per sample");
    add("--vocabulary", transformer_.vocabulary, "distinct tokens");
  }

  void declare_mlp(CLI::App& app) {
    const auto add = [&](const char* flag, std::int64_t& value, const char* help) {
      mlp_flags_.push_back(app.add_option(flag, value, help)->group("mlp")->capture_default_str());
    };
    add("--layers", mlp_.layers, "hidden layers");
    add("--width", mlp_.width, "width of a hidden layer");
    add("--inputs", mlp_.inputs, "numbers per sample that come in");
    add("--outputs", mlp_.outputs, "numbers per sample that go out");
  }

  Result<ModelSpec> model_spec() {
    PIPEPLAN_TRY(choice, parse_word<ModelChoice>(model_, "--model"));
    for (const CLI::Option* flag : choice == ModelChoice::mlp ? transformer_flags_ : mlp_flags_)
      if (flag->count() > 0)
        return bad_usage(fmt::format("{} means nothing for --model {}", flag->get_name(), model_),
                         fmt::format("see 'pipeplan profile --help' for the flags of {}", model_));
    transformer_.seed = mlp_.seed = seed_;
    if (choice == ModelChoice::mlp) return ModelSpec{mlp_};
    return ModelSpec{transformer_};
  }

  [[nodiscard]] Result<ProfileOptions> profile_options() const {
    ProfileOptions options;
    PIPEPLAN_TRY(backend, parse_word<Backend>(backend_, "--backend"));
    PIPEPLAN_TRY(sizes, parse_counts(sizes_, "--microbatch-size"));
    PIPEPLAN_TRY(longest, parse_time(longest_, "--longest"));
    PIPEPLAN_TRY(samples, parse_counts(samples_, "--samples"));
    if (samples.front() > samples.back())
      return bad_usage(fmt::format("--samples is '{}', wanted the fewest first, as 15..60", samples_));
    options.backend = backend;
    options.micro_batch_sizes = sizes;
    options.stopping.longest = longest;
    options.stopping.least = samples.front();
    options.stopping.most = samples.back();
    return options;
  }

  std::string model_, sizes_ = "1", backend_ = "cpu", samples_ = "15..60", longest_ = "20s";
  std::int64_t seed_ = 0;
  TransformerSpec transformer_;
  MlpSpec mlp_;
  std::vector<const CLI::Option*> transformer_flags_, mlp_flags_;
  ArtefactFlags artefact_;
};

}  // namespace

std::unique_ptr<Command> profile_command() { return std::make_unique<ProfileVerb>(); }

}  // namespace pipeplan
