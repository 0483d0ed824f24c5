#include "models/base/assert.hpp"

#include <cstdio>
#include <cstdlib>

namespace pipeplan {

void assertion_failed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "bug in pipeplan: %s:%d: %s does not hold\n", file, line, expression);
  std::abort();
}

}  // namespace pipeplan
