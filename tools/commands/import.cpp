#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "models/import/csv.hpp"
#include "models/import/pipedream.hpp"
#include "profiler/profile.hpp"
#include "tools/cli/artefact.hpp"
#include "tools/cli/flags.hpp"
#include "tools/commands/commands.hpp"
#include "tools/commands/profile_table.hpp"

namespace pipeplan {
namespace {

enum class Format { pipedream, csv };

constexpr auto spellings(Format) {
  return std::to_array<Spelling<Format>>({{Format::pipedream, "pipedream"}, {Format::csv, "csv"}});
}

class Import : public Verb {
 public:
  [[nodiscard]] std::string name() const override { return "import"; }
  [[nodiscard]] std::string summary() const override {
    return "turn someone else's measurements into a profile";
  }
  [[nodiscard]] std::string footer() const override {
    return "Examples:\n"
           "  pipeplan import --from pipedream vgg16.graph.txt -o vgg16.json\n"
           "  pipeplan import --from csv layers.csv -o layers.json\n"
           "A CSV header names columns with units:\n"
           "  name,kind,forward_us,backward_us,parameter_bytes,activation_bytes,output_bytes\n"
           "Times _ns _us _ms _s; sizes _bytes _kib _mib _gib; backward_input_* and backward_weight_* "
           "instead of "
           "backward_*.";
  }

  void declare(CLI::App& app) override {
    app.add_option("input", input_, "file to read; '-' is stdin")->required();
    app.add_option("--from", from_, "its format: " + word_choice<Format>())->required();
    artefact_.declare(app, "the profile");
  }

  Result<ExitCode> run(Terminal& terminal) override {
    PIPEPLAN_TRY(format, parse_word<Format>(from_, "--from"));
    PIPEPLAN_TRY(text, read_text_file(input_));
    PIPEPLAN_TRY(imported, read(format, text));
    const Profile profile = imported_profile(imported);
    PIPEPLAN_CHECK(artefact_.deliver(to_json(profile)));
    for (const Warning& warning : imported.warnings) terminal.warning(warning);
    for (const Warning& warning : profile_warnings(profile)) terminal.warning(warning);
    if (!artefact_.takes_stdout()) terminal.print(profile_table(profile));
    return ExitCode::done;
  }

 private:
  [[nodiscard]] Result<ImportedModel> read(Format format, const std::string& text) const {
    switch (format) {
      case Format::pipedream: return import_pipedream(text, source_name(input_));
      case Format::csv: return import_csv(text, source_name(input_));
    }
    return bad_usage("unknown format");
  }

  std::string input_, from_;
  ArtefactFlags artefact_;
};

}  // namespace

std::unique_ptr<Verb> import_command() { return std::make_unique<Import>(); }

}  // namespace pipeplan
