#pragma once

// The exit codes that the documentation promises.

#include "models/base/result.hpp"

namespace pipeplan {

enum class ExitCode : int {
  done = 0,
  failed = 1,
  wrong_usage = 2,
  no_feasible_plan = 3,
  check_failed = 4,
  interrupted = 130,
};

inline ExitCode exit_code_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::bad_input: return ExitCode::failed;
    case ErrorCode::unavailable: return ExitCode::failed;
    case ErrorCode::bad_usage: return ExitCode::wrong_usage;
    case ErrorCode::check_failed: return ExitCode::check_failed;
  }
  return ExitCode::failed;
}

}  // namespace pipeplan
