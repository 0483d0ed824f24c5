#pragma once

// A verb of the command line: it declares its flags, and runs once they are parsed.

#include <memory>
#include <string>
#include <vector>

#include "models/base/result.hpp"
#include "tools/cli/exit_code.hpp"
#include "tools/cli/terminal.hpp"

namespace CLI {
class App;
}

namespace pipeplan {

class Verb {
 public:
  virtual ~Verb() = default;
  [[nodiscard]] virtual std::string name() const = 0;
  // One line for the list of verbs.
  [[nodiscard]] virtual std::string summary() const = 0;
  // What --help adds below the flags: an example, what comes out, exit codes that matter.
  [[nodiscard]] virtual std::string footer() const = 0;
  virtual void declare(CLI::App& app) = 0;
  virtual Result<ExitCode> run(Terminal& terminal) = 0;
};

// The whole program: parses, runs the verb, prints errors. Returns the exit code.
int run_program(int argc, const char* const* argv, const std::vector<std::unique_ptr<Verb>>& commands);

}  // namespace pipeplan
