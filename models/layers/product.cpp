#include "models/layers/product.hpp"

#include <algorithm>

#include "models/layers/eigen.hpp"

namespace pipeplan {
namespace {

template<class Scalar>
auto as_part(const MatrixPart<Scalar>& part) {
  return Eigen::Map<RowMajor<Scalar>, Eigen::Unaligned, Eigen::OuterStride<>>(
      part.first, part.rows, part.columns, Eigen::OuterStride<>(part.stride));
}

// Not inlined: the stack that Eigen takes here is given back at the end of each block.
template<class Left, class Right, class Target>
[[gnu::noinline]] void add_block(const Left& left, const Right& right, Target target) {
  target.noalias() += left * right;
}

// Eigen packs both operands into buffers that lie on the stack up to a limit and on the heap beyond. The
// blocks are as large as that limit allows, on every CPU; 512 by 512 costs no speed against Eigen's own
// cutting by cache sizes.
template<class Left, class Right, class Target>
void add_in_blocks(const Left& left, const Right& right, Target target) {
  constexpr Index side = 512;
  constexpr Index depth =
      EIGEN_STACK_ALLOCATION_LIMIT / (side * static_cast<Index>(sizeof(typename Left::Scalar)));
  for (Index k = 0; k < left.cols(); k += depth)
    for (Index j = 0; j < target.cols(); j += side)
      for (Index i = 0; i < target.rows(); i += side) {
        const Index rows = std::min(side, target.rows() - i);
        const Index columns = std::min(side, target.cols() - j);
        const Index terms = std::min(depth, left.cols() - k);
        add_block(left.block(i, k, rows, terms), right.block(k, j, terms, columns),
                  target.block(i, j, rows, columns));
      }
}

}  // namespace

template<class Scalar>
void add_product(Transposed transposed, const MatrixPart<const Scalar>& left,
                 const MatrixPart<const Scalar>& right, const MatrixPart<Scalar>& target) {
  switch (transposed) {
    case Transposed::neither: return add_in_blocks(as_part(left), as_part(right), as_part(target));
    case Transposed::left: return add_in_blocks(as_part(left).transpose(), as_part(right), as_part(target));
    case Transposed::right: return add_in_blocks(as_part(left), as_part(right).transpose(), as_part(target));
  }
}

template<class Scalar>
void set_product(Transposed transposed, const MatrixPart<const Scalar>& left,
                 const MatrixPart<const Scalar>& right, const MatrixPart<Scalar>& target) {
  as_part(target).setZero();
  add_product(transposed, left, right, target);
}

template void add_product(Transposed, const MatrixPart<const float>&, const MatrixPart<const float>&,
                          const MatrixPart<float>&);
template void add_product(Transposed, const MatrixPart<const double>&, const MatrixPart<const double>&,
                          const MatrixPart<double>&);
template void set_product(Transposed, const MatrixPart<const float>&, const MatrixPart<const float>&,
                          const MatrixPart<float>&);
template void set_product(Transposed, const MatrixPart<const double>&, const MatrixPart<const double>&,
                          const MatrixPart<double>&);

}  // namespace pipeplan
