#include "profiler/profiler.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "models/zoo/zoo.hpp"
#include "tools/cli/artefact.hpp"
#include "tools/cli/flags.hpp"
#include "tools/commands/commands.hpp"
#include "tools/commands/profile_gpu.hpp"
#include "tools/commands/profile_table.hpp"

namespace pipeplan {
namespace {

enum class ModelChoice { mlp, transformer };

constexpr auto spellings(ModelChoice) {
  return std::to_array<Spelling<ModelChoice>>(
      {{ModelChoice::mlp, "mlp"}, {ModelChoice::transformer, "transformer"}});
}

class ProfileVerb : public Verb {
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
           "  pipeplan profile --model transformer --backend cuda --partition 32sm --save-trace trace.json "
           "\\\n"
           "      --probe 2 --save-cluster two-parts.json -o gpu.json\n"
           "  pipeplan profile --from-trace trace.json -o gpu.json\n"
           "On the CPU whole training micro-batches run on one core; medians go into the profile, and the "
           "load\n"
           "guard says whether the machine was quiet enough to believe them. On a GPU a time is that of the\n"
           "kernels and the gaps before them, read through CUPTI, or of events around each layer where "
           "CUPTI\n"
           "is not to be had; the profile says which.";
  }

  void declare(CLI::App& app) override {
    const auto add = [&](const char* flag, auto& value, const std::string& help) {
      measuring_flags_.push_back(app.add_option(flag, value, help));
      return app.get_option(flag);
    };
    add("--model", model_, "network to build and measure: " + word_choice<ModelChoice>());
    add("--seed", seed_, "seed of the weights and of the data")->capture_default_str();
    declare_transformer(app);
    declare_mlp(app);
    add("--microbatch-size", sizes_, "samples per micro-batch, as 1,2,4")->capture_default_str();
    add("--backend", backend_, "where to measure: cpu|cuda")->capture_default_str();
    add("--samples", samples_, "fewest and most samples, as 15..60")->capture_default_str();
    add("--longest", longest_, "longest measuring per micro-batch size, as 20s")->capture_default_str();
    gpu_.declare(app);
    app.add_option("--from-trace", from_trace_,
                   "measure nothing: make the profile again from a file that --save-trace wrote")
        ->group("cuda");
    artefact_.declare(app, "the profile");
  }

  Result<ExitCode> run(Terminal& terminal) override {
    return from_trace_.empty() ? measure(terminal) : replay(terminal);
  }

 private:
  Result<ExitCode> replay(Terminal& terminal) {
    for (const auto* flags : {&measuring_flags_, &transformer_flags_, &mlp_flags_})
      for (const CLI::Option* flag : *flags)
        if (flag->count() > 0) return refuse_with_trace(flag->get_name());
    if (const std::string flag = gpu_.first_given(); !flag.empty()) return refuse_with_trace(flag);
    PIPEPLAN_TRY(profiling, profile_of_trace(from_trace_));
    return deliver(profiling, terminal, "");
  }

  static Failure refuse_with_trace(const std::string& flag) {
    return bad_usage(fmt::format("{} means nothing beside --from-trace: nothing is measured", flag));
  }

  Result<ExitCode> measure(Terminal& terminal) {
    PIPEPLAN_TRY(options, profile_options());
    PIPEPLAN_TRY(spec, model_spec());
    PIPEPLAN_TRY(model, build_model(spec));
    options.progress = [&](std::int64_t done, std::int64_t total) {
      terminal.progress("profiling", done, total);
    };
    PIPEPLAN_TRY(profiling, profile_model(model, options));
    terminal.finish_progress();
    PIPEPLAN_TRY(probe, gpu_.probe(model, options, profiling));
    if (options.backend == Backend::cpu) say_load(profiling.load, terminal);
    PIPEPLAN_TRY(code, deliver(profiling, terminal, probe ? probe_text(*probe) : ""));
    PIPEPLAN_CHECK(gpu_.save_trace(profiling));
    return code;
  }

  Result<ExitCode> deliver(const Profiling& profiling, Terminal& terminal, const std::string& probe) const {
    PIPEPLAN_CHECK(artefact_.deliver(to_json(profiling.profile)));
    for (const Warning& warning : profiling.warnings) terminal.warning(warning);
    if (is_fabricated(profiling.profile))
      terminal.note("the trace is fabricated: no GPU has taken these times");
    if (artefact_.takes_stdout()) {
      if (!probe.empty()) terminal.note(probe);
      return ExitCode::done;
    }
    terminal.print(profile_table(profiling.profile));
    if (!probe.empty()) terminal.print(fmt::format("\n{}", probe));
    return ExitCode::done;
  }

  void say_load(const LoadVerdict& load, Terminal& terminal) const {
    if (load.clean()) return terminal.note(fmt::format("load guard: {}; seed {}", load.sentence(), seed_));
    terminal.warning({WarningCode::busy_machine, fmt::format("load guard: {}", load.sentence()),
                      "profile again on an idle machine"});
  }

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
    if (model_.empty())
      return bad_usage("--model is required", fmt::format("give --model {}", word_choice<ModelChoice>()));
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
    PIPEPLAN_CHECK(gpu_.apply(options));
    return options;
  }

  std::string model_, sizes_ = "1", backend_ = "cpu", samples_ = "15..60", longest_ = "20s";
  std::int64_t seed_ = 0;
  TransformerSpec transformer_;
  MlpSpec mlp_;
  GpuProfileFlags gpu_;
  std::string from_trace_;
  std::vector<const CLI::Option*> measuring_flags_, transformer_flags_, mlp_flags_;
  ArtefactFlags artefact_;
};

}  // namespace

std::unique_ptr<Verb> profile_command() { return std::make_unique<ProfileVerb>(); }

}  // namespace pipeplan
