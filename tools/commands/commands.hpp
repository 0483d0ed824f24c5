#pragma once

// The verbs, one file each; main puts them together.

#include <memory>

#include "tools/cli/command.hpp"

namespace pipeplan {

std::unique_ptr<Command> profile_command();
std::unique_ptr<Command> plan_command();
std::unique_ptr<Command> simulate_command();
std::unique_ptr<Command> run_command();
std::unique_ptr<Command> sweep_command();
std::unique_ptr<Command> import_command();
std::unique_ptr<Command> show_command();
std::unique_ptr<Command> check_command();
std::unique_ptr<Command> explain_command();

}  // namespace pipeplan
