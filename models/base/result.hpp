#pragma once

// Result<T> is how every fallible function answers: the value, or an Error that a user can act on.
// Errors are for the user's input and for the world; our own bugs go through PIPEPLAN_ASSERT.

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace pipeplan {

// What the command line makes an exit code of.
enum class ErrorCode {
  bad_input,     // the user's data cannot be used (exit 1)
  bad_usage,     // the request contradicts itself or the documentation (exit 2)
  unavailable,   // a file, a device or a permission is missing (exit 1)
  check_failed,  // a check that was asked for did not hold (exit 4)
};

struct Error {
  ErrorCode code = ErrorCode::bad_input;
  std::string message;  // lower case: the thing, the value seen, the value wanted
  std::string where;    // "profile.json#/layers/3/forward_ns", "graph.txt:12", or empty
  std::string hint;     // the next step, only where one is known
};

template<class T>
using Result = tl::expected<T, Error>;

using Failure = tl::unexpected<Error>;

inline Failure fail(ErrorCode code, std::string where, std::string message, std::string hint = {}) {
  return Failure(Error{code, std::move(message), std::move(where), std::move(hint)});
}

inline Failure bad_input(std::string where, std::string message, std::string hint = {}) {
  return fail(ErrorCode::bad_input, std::move(where), std::move(message), std::move(hint));
}

inline Failure bad_usage(std::string message, std::string hint = {}) {
  return fail(ErrorCode::bad_usage, {}, std::move(message), std::move(hint));
}

}  // namespace pipeplan

// PIPEPLAN_TRY(name, expression) declares `name` as the value of a Result, or returns its error.
#define PIPEPLAN_TRY(name, expression)                                              \
  auto name##_result = (expression);                                                \
  if (!name##_result) return ::pipeplan::Failure(std::move(name##_result).error()); \
  auto& name = *name##_result

// PIPEPLAN_CHECK(expression) returns the error of a Result<void>, if there is one.
#define PIPEPLAN_CHECK(expression)                                   \
  do {                                                               \
    if (auto checked_result = (expression); !checked_result)         \
      return ::pipeplan::Failure(std::move(checked_result).error()); \
  } while (false)
