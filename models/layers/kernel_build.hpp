#pragma once

// How the kernels of this program were compiled. Times measured with other kernels say nothing about a run,
// so profiles carry this and runs compare it.

#include <string>

namespace pipeplan {

// For example "g++ 12.2, avx512f avx2 fma, Eigen 3.4.0".
std::string kernel_build();

}  // namespace pipeplan
