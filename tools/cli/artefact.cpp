#include "tools/cli/artefact.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

namespace pipeplan {

void ArtefactFlags::declare(CLI::App& app, const std::string& what) {
  app.add_option("-o,--output", output, fmt::format("file to write {} to; '-' is stdout", what));
  app.add_flag("--json", json, fmt::format("print {} as a JSON document instead of a table", what));
}

Result<void> ArtefactFlags::deliver(const Json& document) const {
  const std::string text = document_text(document);
  if (!output.empty()) PIPEPLAN_CHECK(write_text_file(output, text));
  if (json && output != "-") PIPEPLAN_CHECK(write_text_file("-", text));
  return {};
}

std::string document_schema(const Json& document) {
  const bool named = document.is_object() && document.contains("schema") && document["schema"].is_string();
  return named ? document["schema"].get<std::string>() : std::string();
}

Result<Cluster> load_cluster(const std::string& name_or_file) {
  if (auto named = named_cluster(name_or_file)) return std::move(*named);
  return read_cluster_file(name_or_file);
}

}  // namespace pipeplan
