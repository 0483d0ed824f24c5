#include "models/base/assert.hpp"

#include <cstdio>
#include <cstdlib>

namespace pipeplan {

void assertion_failed(const char* what, const char* file, int line) {
  std::fprintf(stderr, "bug in pipeplan: %s:%d: %s\n", file, line, what);
  std::abort();
}

}  // namespace pipeplan
