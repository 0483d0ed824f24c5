#pragma once

// Matrix products, the one place where the time goes. Compiled once, in product.cpp: each shape of Eigen's
// kernel costs seconds of compile time. They take nothing from the heap and at most 1 MiB of stack, and sum
// in an order that depends on the width of the CPU's vectors alone.

#include <cstdint>

namespace pipeplan {

// A matrix in someone's memory: row-major, `stride` scalars from row to row.
template<class Scalar>
struct MatrixPart {
  Scalar* first;
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t stride;
};

template<class Scalar>
MatrixPart<Scalar> whole_matrix(Scalar* first, std::int64_t rows, std::int64_t columns) {
  return {first, rows, columns, columns};
}

enum class Transposed { neither, left, right };

// target += left right, left^T right or left right^T; the target overlaps neither.
template<class Scalar>
void add_product(Transposed transposed, const MatrixPart<const Scalar>& left,
                 const MatrixPart<const Scalar>& right, const MatrixPart<Scalar>& target);

// The same with target = instead of +=.
template<class Scalar>
void set_product(Transposed transposed, const MatrixPart<const Scalar>& left,
                 const MatrixPart<const Scalar>& right, const MatrixPart<Scalar>& target);

}  // namespace pipeplan
