#include <csignal>
#include <cstdlib>

#include "tools/cli/exit_code.hpp"
#include "tools/commands/commands.hpp"

namespace {

// Files are written whole or not at all, so an interrupt may end the program wherever it is.
extern "C" void end_on_interrupt(int) { std::_Exit(static_cast<int>(pipeplan::ExitCode::interrupted)); }

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGINT, end_on_interrupt);
  std::vector<std::unique_ptr<pipeplan::Verb>> commands;
  commands.push_back(pipeplan::profile_command());
  commands.push_back(pipeplan::import_command());
  commands.push_back(pipeplan::plan_command());
  commands.push_back(pipeplan::simulate_command());
  commands.push_back(pipeplan::run_command());
  commands.push_back(pipeplan::sweep_command());
  commands.push_back(pipeplan::show_command());
  commands.push_back(pipeplan::check_command());
  commands.push_back(pipeplan::explain_command());
  return pipeplan::run_program(argc, argv, commands);
}
