#pragma once

// An always-on check of our own reasoning: a failure is a bug in pipeplan, never a fault of the input.
// It prints the expression and its place to stderr and aborts.

namespace pipeplan {

[[noreturn]] void assertion_failed(const char* what, const char* file, int line);

}  // namespace pipeplan

#define PIPEPLAN_ASSERT(condition)    \
  ((condition) ? static_cast<void>(0) \
               : ::pipeplan::assertion_failed(#condition " does not hold", __FILE__, __LINE__))

// For the place that no value of an enumeration leads to.
#define PIPEPLAN_UNREACHABLE(what) ::pipeplan::assertion_failed(what, __FILE__, __LINE__)
