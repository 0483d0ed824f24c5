#pragma once

// Matrix products on a GPU, the one place where the time goes: models/layers/product.hpp on device memory, by
// cuBLASLt. The algorithm for a shape is chosen once and kept, among those that sum in a fixed order: equal
// inputs give equal bits. The choice counts on as many SMs as the work has.

#include <cublasLt.h>

#include <compare>
#include <cstdint>
#include <map>
#include <memory>

#include "models/layers/cuda/cuda_work.hpp"
#include "models/layers/product.hpp"

namespace pipeplan {

// A matrix in device memory, or the first of several that follow each other.
struct OperandShape {
  std::int64_t rows, columns, stride;
  std::int64_t alignment;  // bytes, of each of the matrices
  friend auto operator<=>(const OperandShape&, const OperandShape&) = default;
};

// All that the choice of an algorithm depends on.
struct ProductShape {
  Transposed transposed;
  bool adds, has_bias;
  OperandShape left, right, target;
  std::int64_t matrix_count;
  friend auto operator<=>(const ProductShape&, const ProductShape&) = default;
};

struct DestroyDescriptor {
  void operator()(cublasLtMatmulDescOpaque_t* operation) const { (void)cublasLtMatmulDescDestroy(operation); }
  void operator()(cublasLtMatrixLayoutOpaque_t* layout) const { (void)cublasLtMatrixLayoutDestroy(layout); }
};

// How to do it. `status`: CUBLAS_STATUS_SUCCESS, or why there is no algorithm.
struct ProductChoice {
  std::unique_ptr<cublasLtMatmulDescOpaque_t, DestroyDescriptor> operation;
  std::unique_ptr<cublasLtMatrixLayoutOpaque_t, DestroyDescriptor> left, right, target;
  cublasLtMatmulAlgo_t algorithm{};
  cublasStatus_t status = CUBLAS_STATUS_NOT_SUPPORTED;
};

class CudaProduct {
 public:
  using Left = MatrixPart<const float>;
  using Right = MatrixPart<const float>;
  using Target = MatrixPart<float>;

  explicit CudaProduct(CudaWork& work) : work_(work) {}

  // target = left right, left^T right or left right^T, for `matrix_count` triples of matrices, each operand's
  // one after the other.
  void set(Transposed transposed, const Left& left, const Right& right, const Target& target,
           std::int64_t matrix_count = 1) const;
  // target += the same.
  void add(Transposed transposed, const Left& left, const Right& right, const Target& target) const;
  // target = left right + bias in every row. False, with nothing done, where cuBLASLt has no algorithm that
  // does this at once.
  [[nodiscard]] bool set_with_bias(const Left& left, const Right& right, const float* bias,
                                   const Target& target) const;

 private:
  ProductChoice& choice(const ProductShape& shape, const float* bias) const;
  void run(const ProductChoice& choice, float beta, const float* left, const float* right,
           float* target) const;

  CudaWork& work_;
  mutable std::map<ProductShape, ProductChoice> choices_;
};

}  // namespace pipeplan
