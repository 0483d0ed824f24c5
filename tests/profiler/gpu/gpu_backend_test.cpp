#include "profiler/gpu/gpu_backend.hpp"

#include <doctest/doctest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "profiler/gpu/plugin_entry.hpp"

using namespace pipeplan;

namespace {

Error refusal(const std::vector<std::string>& places) {
  const auto backend = load_gpu_backend(places);
  REQUIRE_FALSE(backend.has_value());
  return backend.error();
}

}  // namespace

TEST_CASE("gpu_backend: without a plug-in the places looked at are named") {
  const Error error = refusal({"/nowhere/a.so", "/nowhere/b.so"});
  CHECK(error.code == ErrorCode::unavailable);
  CHECK(error.message == "no CUDA plug-in: looked for /nowhere/a.so and /nowhere/b.so");
  CHECK(error.hint.find("PIPEPLAN_CUDA_PLUGIN") != std::string::npos);
}

TEST_CASE("gpu_backend: a file that is no library is refused with the reason of the loader") {
  const auto path = std::filesystem::temp_directory_path() / "pipeplan_no_library.so";
  std::ofstream(path) << "not a library";
  const Error error = refusal({"/nowhere/a.so", path.string()});
  std::filesystem::remove(path);
  CHECK(error.code == ErrorCode::unavailable);
  CHECK(error.where == path.string());
  CHECK(error.message.find("does not load") != std::string::npos);
}

TEST_CASE("gpu_backend: a plug-in of another build is refused with both stamps") {
  const Error error = refusal({STALE_PLUGIN});
  CHECK(error.where == STALE_PLUGIN);
  CHECK(error.message == fmt::format("was built as 'pipeplan of yesterday', wanted '{}'", plugin_stamp()));
  CHECK(plugin_stamp().find(version()) != std::string::npos);
}

TEST_CASE("gpu_backend: a library without the entry is no plug-in") {
  const Error error = refusal({"/nowhere/a.so", NO_PLUGIN});
  CHECK(error.message == "is no plug-in: it has no pipeplan_cuda_backend");
}
