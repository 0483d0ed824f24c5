#include "models/layers/kernel_build.hpp"

#include <fmt/format.h>

#include <Eigen/Core>

namespace pipeplan {
namespace {

std::string compiler() {
#ifdef __clang__
  return fmt::format("clang {}.{}", __clang_major__, __clang_minor__);
#else
  return fmt::format("g++ {}.{}", __GNUC__, __GNUC_MINOR__);
#endif
}

std::string instruction_sets() {
  std::string sets;
#ifdef __AVX512F__
  sets += " avx512f";
#endif
#ifdef __AVX2__
  sets += " avx2";
#endif
#ifdef __FMA__
  sets += " fma";
#endif
#ifdef __ARM_NEON
  sets += " neon";
#endif
#ifdef __OPTIMIZE__
  sets += " optimized";
#endif
  return sets.empty() ? " baseline" : sets;
}

}  // namespace

std::string kernel_build() {
  return fmt::format("{},{}, Eigen {}.{}.{}", compiler(), instruction_sets(), EIGEN_WORLD_VERSION,
                     EIGEN_MAJOR_VERSION, EIGEN_MINOR_VERSION);
}

}  // namespace pipeplan
