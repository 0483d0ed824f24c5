#pragma once

// Where a verb's document goes: -o FILE writes it, "-o -" and --json print it in place of the table.

#include <string>

#include "models/base/json_file.hpp"
#include "models/cluster.hpp"
#include "tools/cli/terminal.hpp"

namespace CLI {
class App;
}

namespace pipeplan {

struct ArtefactFlags {
  std::string output;  // empty: no file
  bool json = false;

  // Adds -o and --json; `what` as in "the plan".
  void declare(CLI::App& app, const std::string& what);
  // True if stdout carries the document, so that no table may be printed.
  [[nodiscard]] bool takes_stdout() const { return json || output == "-"; }
  // Writes `document` wherever the flags say.
  [[nodiscard]] Result<void> deliver(const Json& document) const;
};

// What a document says it is ("pipeplan.plan/1"); empty if it says nothing.
std::string document_schema(const Json& document);

// A built-in cluster ("4xv100-16gb") or a cluster document.
Result<Cluster> load_cluster(const std::string& name_or_file);

}  // namespace pipeplan
