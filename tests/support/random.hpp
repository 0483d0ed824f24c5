#pragma once

// Seeded random numbers for tests: the same on every platform, and the seed is shown when a check fails.

#include <cstdint>
#include <random>

namespace pipeplan::test {

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  // A whole number from least to most, both included.
  std::int64_t between(std::int64_t least, std::int64_t most) {
    const auto width = static_cast<std::uint64_t>(most - least) + 1;
    return least + static_cast<std::int64_t>(engine_() % width);
  }
  bool coin() { return between(0, 1) == 1; }

 private:
  std::mt19937_64 engine_;
};

}  // namespace pipeplan::test
