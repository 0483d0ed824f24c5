#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "models/base/version.hpp"
#include "tools/cli/flags.hpp"
#include "tools/cli/verb.hpp"

namespace pipeplan {
namespace {

constexpr auto description =
    "pipeplan plans where to cut a network into pipeline stages, simulates the schedule, and checks its "
    "prediction by "
    "running the plan.";

constexpr auto overview =
    "The walk: profile (or import) -> plan -> simulate -> run. Files are JSON; '-' stands for stdin or "
    "stdout.\n"
    "Example:\n"
    "  pipeplan profile --model transformer --blocks 4 --hidden 128 -o profile.json\n"
    "  pipeplan plan profile.json --stages 2 --microbatches 8 -o plan.json\n"
    "  pipeplan simulate plan.json --profile profile.json\n"
    "  pipeplan run plan.json --profile profile.json\n"
    "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no feasible plan, 4 a check failed, 130 interrupted.";

std::vector<std::string> flags_of(const CLI::App& app) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  return flags;
}

class Program {
 public:
  explicit Program(const std::vector<std::unique_ptr<Verb>>& commands)
      : commands_(commands), app_(description, "pipeplan") {
    app_.set_version_flag("--version", "pipeplan " + version());
    app_.add_option("--color", color_, "colours: " + word_choice<ColorMode>() + "; NO_COLOR is honoured");
    app_.footer(overview);
    app_.get_formatter()->column_width(36);
    app_.require_subcommand(0, 1);
    app_.fallthrough();
    for (const auto& command : commands_) {
      CLI::App* verb = app_.add_subcommand(command->name(), command->summary());
      verb->footer(command->footer());
      command->declare(*verb);
      names_.push_back(command->name());
    }
  }

  int run(int argc, const char* const* argv) {
    try {
      app_.parse(argc, argv);
    } catch (const CLI::Success& request) {
      return app_.exit(request);  // --help and --version
    } catch (const CLI::ParseError& error) {
      return report(explain(error));
    }
    return run_verb();
  }

 private:
  int report(const Error& error) {
    terminal_.finish_progress();
    terminal_.error(error);
    return static_cast<int>(exit_code_of(error.code));
  }

  [[nodiscard]] const CLI::App* chosen() const {
    const auto verbs = app_.get_subcommands();
    return verbs.empty() ? nullptr : verbs.front();
  }

  Error explain(const CLI::ParseError& error) const {
    const CLI::App* verb = chosen();
    const std::string help = verb == nullptr ? "pipeplan --help" : "pipeplan " + verb->get_name() + " --help";
    Error explained{ErrorCode::bad_usage, error.what(), {}, fmt::format("see '{}'", help)};
    std::string& message = explained.message;
    message[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(message[0])));
    const auto extras = app_.remaining(true);
    if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !extras.empty())
      explained = unknown_argument(extras.front(), verb, help);
    return explained;
  }

  Error unknown_argument(const std::string& argument, const CLI::App* verb, const std::string& help) const {
    const bool flag = argument.starts_with("-");
    const std::string word = argument.substr(0, argument.find('='));
    const std::vector<std::string> known = flag && verb != nullptr ? flags_of(*verb) : names_;
    const auto nearest = flag || verb == nullptr ? nearest_spelling(word, known) : std::nullopt;
    const std::string what = flag ? "flag" : verb == nullptr ? "verb" : "argument";
    return {ErrorCode::bad_usage,
            fmt::format("unknown {} '{}'", what, word),
            {},
            nearest ? fmt::format("did you mean '{}'?", *nearest) : fmt::format("see '{}'", help)};
  }

  int run_verb() {
    const auto mode = parse_word<ColorMode>(color_, "--color");
    if (!mode) return report(mode.error());
    terminal_.set_color(*mode);
    const CLI::App* verb = chosen();
    if (verb == nullptr) {
      terminal_.print(app_.help());
      return static_cast<int>(ExitCode::wrong_usage);
    }
    for (const auto& command : commands_) {
      if (command->name() != verb->get_name()) continue;
      const auto outcome = command->run(terminal_);
      return outcome ? static_cast<int>(*outcome) : report(outcome.error());
    }
    return static_cast<int>(ExitCode::wrong_usage);
  }

  const std::vector<std::unique_ptr<Verb>>& commands_;
  CLI::App app_;
  Terminal terminal_;
  std::vector<std::string> names_;
  std::string color_ = "auto";
};

}  // namespace

int run_program(int argc, const char* const* argv, const std::vector<std::unique_ptr<Verb>>& commands) {
  return Program(commands).run(argc, argv);
}

}  // namespace pipeplan
