#pragma once

// The verbs, one file each; main puts them together.

#include <memory>

#include "tools/cli/verb.hpp"

namespace pipeplan {

std::unique_ptr<Verb> profile_command();
std::unique_ptr<Verb> plan_command();
std::unique_ptr<Verb> simulate_command();
std::unique_ptr<Verb> run_command();
std::unique_ptr<Verb> sweep_command();
std::unique_ptr<Verb> import_command();
std::unique_ptr<Verb> show_command();
std::unique_ptr<Verb> check_command();
std::unique_ptr<Verb> explain_command();

}  // namespace pipeplan
