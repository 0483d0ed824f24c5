#pragma once

// A folder of its own for one test, gone at its end, and options for checkpoints within it.

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "executor/checkpoint.hpp"

namespace pipeplan::test {

class TemporaryFolder {
 public:
  TemporaryFolder() : path_((std::filesystem::temp_directory_path() / "pipeplan-test-XXXXXX").string()) {
    REQUIRE(::mkdtemp(path_.data()) != nullptr);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  // For the folder `name` inside, which does not exist at first; every iteration, the newest `keep` of them.
  [[nodiscard]] CheckpointOptions checkpoints(const std::string& name, std::int64_t keep = 1) const {
    return {.folder = path_ + "/" + name, .every = 1, .keep = keep, .resume = true};
  }

 private:
  std::string path_;
};

}  // namespace pipeplan::test
