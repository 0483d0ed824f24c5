#pragma once

// Eigen as the kernels use it: views on the caller's memory, and the limit up to which products may take
// stack (see product.hpp; two such buffers fit a thread's stack of 2 MiB). For .cpp files of this folder
// only, and before any other header with Eigen in it.

// GCC 12 takes the deliberately undefined registers of its own AVX-512 intrinsics for a fault (GCC bug
// 105593). The warning arises wherever they are inlined, hence no pop.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#define EIGEN_STACK_ALLOCATION_LIMIT (512 * 1024)
#include <cstdint>
#include <Eigen/Core>
#include <type_traits>

namespace pipeplan {

using Eigen::Index;

// Row-major; Scalar may be const.
template<class Scalar>
using RowMajor = std::conditional_t<
    std::is_const_v<Scalar>,
    const Eigen::Matrix<std::remove_const_t<Scalar>, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>,
    Eigen::Matrix<std::remove_const_t<Scalar>, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;

template<class Scalar>
using Flat = std::conditional_t<std::is_const_v<Scalar>,
                                const Eigen::Array<std::remove_const_t<Scalar>, 1, Eigen::Dynamic>,
                                Eigen::Array<std::remove_const_t<Scalar>, 1, Eigen::Dynamic>>;

// A whole buffer as a matrix, or as one row of scalars.
template<class Scalar>
auto as_matrix(Scalar* buffer, Index rows, Index columns) {
  return Eigen::Map<RowMajor<Scalar>, Eigen::Aligned64>(buffer, rows, columns);
}
template<class Scalar>
auto as_array(Scalar* buffer, Index count) {
  return Eigen::Map<Flat<Scalar>, Eigen::Aligned64>(buffer, count);
}

// Row `row` of a matrix of `columns`, wherever it lies.
template<class Scalar>
auto as_row(Scalar* buffer, Index row, Index columns) {
  return Eigen::Map<Flat<Scalar>>(buffer + row * columns, columns);
}

}  // namespace pipeplan
