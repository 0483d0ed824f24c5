// The main of the tests that need a GPU: without one they are skipped (exit 77), with the reason.

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>

#include "profiler/gpu/gpu_backend.hpp"

namespace {

pipeplan::Result<std::size_t> gpu_count() {
  PIPEPLAN_TRY(backend, pipeplan::cuda_backend());
  PIPEPLAN_TRY(devices, backend->devices());
  return devices.size();
}

}  // namespace

int main(int argc, char** argv) {
  if (const auto count = gpu_count(); !count) {
    std::printf("skipped: %s\n", count.error().message.c_str());
    return 77;
  }
  return doctest::Context(argc, argv).run();
}
