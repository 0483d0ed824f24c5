#pragma once

// An always-on check of our own reasoning: a failure is a bug in pipeplan, never a fault of the input.
// It prints the expression and its place to stderr and aborts.

namespace pipeplan {

[[noreturn]] void assertion_failed(const char* expression, const char* file, int line);

}  // namespace pipeplan

#define PIPEPLAN_ASSERT(condition) \
  ((condition) ? static_cast<void>(0) : ::pipeplan::assertion_failed(#condition, __FILE__, __LINE__))
