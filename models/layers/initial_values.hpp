#pragma once

// Where the first values of parameters come from: uniform random numbers that depend on a seed alone. The
// standard fixes std::mt19937_64 to the bit but leaves its distributions to each library, so the mapping to
// scalars is ours.

#include <cstdint>
#include <random>

namespace pipeplan {

class InitialValues {
 public:
  explicit InitialValues(std::uint64_t seed) : engine_(seed) {}

  // `count` values in [-bound, bound).
  template<class Scalar>
  void fill(Scalar* values, std::int64_t count, double bound) {
    for (std::int64_t i = 0; i < count; ++i) values[i] = static_cast<Scalar>(bound * (2 * fraction() - 1));
  }

 private:
  // In [0, 1), from the upper 53 bits.
  double fraction() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }

  std::mt19937_64 engine_;
};

// SplitMix64 (Steele, Lea and Flood 2014): the number of a stream that stands at `state`, which the stream
// then moves on by split_mix_step. It sends neighbouring states far apart.
inline constexpr std::uint64_t split_mix_step = 0x9e3779b97f4a7c15;
inline std::uint64_t split_mix(std::uint64_t state) {
  std::uint64_t mixed = state + split_mix_step;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
  return mixed ^ (mixed >> 31);
}

// A seed for part `index` of something that has `seed`.
inline std::uint64_t part_seed(std::uint64_t seed, std::uint64_t index) {
  return split_mix(seed + index * split_mix_step);
}

}  // namespace pipeplan
