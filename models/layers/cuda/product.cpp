#include "models/layers/cuda/product.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <span>

#include "models/layers/layer.hpp"

namespace pipeplan {
namespace {

// Of an address or a size in bytes, up to that of whole buffers.
std::int64_t alignment_of(std::uint64_t bytes) {
  return std::int64_t{1} << std::countr_zero(bytes | static_cast<std::uint64_t>(buffer_alignment));
}

template<class Scalar>
OperandShape operand(const MatrixPart<Scalar>& matrix, std::int64_t matrix_count) {
  const std::int64_t of_address = alignment_of(reinterpret_cast<std::uintptr_t>(matrix.first));
  const auto step = static_cast<std::uint64_t>(matrix.rows * matrix.stride) * sizeof(float);
  const std::int64_t of_step = matrix_count > 1 ? alignment_of(step) : of_address;
  return {matrix.rows, matrix.columns, matrix.stride, std::min(of_address, of_step)};
}

ProductShape shape_of(Transposed transposed, const CudaProduct::Left& left, const CudaProduct::Right& right,
                      const CudaProduct::Target& target, std::int64_t matrix_count) {
  return {.transposed = transposed,
          .adds = false,
          .has_bias = false,
          .left = operand(left, matrix_count),
          .right = operand(right, matrix_count),
          .target = operand(target, matrix_count),
          .matrix_count = matrix_count};
}

cublasOperation_t transposed_if(bool condition) { return condition ? CUBLAS_OP_T : CUBLAS_OP_N; }

// Makes what a choice is made of, and takes note of the first call that fails.
class ChoiceBuilder {
 public:
  ChoiceBuilder(CudaWork& work, const ProductShape& shape, const float* bias)
      : work_(work), shape_(shape), bias_(bias) {}

  ProductChoice build() {
    ProductChoice choice;
    choice.operation.reset(make_operation());
    choice.left.reset(make_layout(shape_.left));
    choice.right.reset(make_layout(shape_.right));
    choice.target.reset(make_layout(shape_.target));
    cublasLtMatmulPreference_t preference = make_preference();
    if (work_.good()) choose(preference, choice);
    if (preference != nullptr) (void)cublasLtMatmulPreferenceDestroy(preference);
    return choice;
  }

 private:
  // cuBLASLt counts columns first: it sees the transposed of each matrix, and target^T = right^T left^T makes
  // its first operand our right one.
  cublasLtMatmulDesc_t make_operation() {
    cublasLtMatmulDesc_t operation = nullptr;
    const cublasComputeType_t precision = work_.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    if (!work_.check(cublasLtMatmulDescCreate(&operation, precision, CUDA_R_32F), "cublasLtMatmulDescCreate"))
      return nullptr;
    set(operation, CUBLASLT_MATMUL_DESC_TRANSA, transposed_if(shape_.transposed == Transposed::right));
    set(operation, CUBLASLT_MATMUL_DESC_TRANSB, transposed_if(shape_.transposed == Transposed::left));
    set(operation, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, std::int32_t{work_.sm_count()});
    if (!shape_.has_bias) return operation;
    set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias_);
    return operation;
  }

  cublasLtMatrixLayout_t make_layout(const OperandShape& matrix) {
    cublasLtMatrixLayout_t layout = nullptr;
    const auto columns = static_cast<std::uint64_t>(matrix.columns),
               rows = static_cast<std::uint64_t>(matrix.rows);
    if (!work_.check(cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, columns, rows, matrix.stride),
                     "cublasLtMatrixLayoutCreate") ||
        shape_.matrix_count == 1)
      return layout;
    set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(shape_.matrix_count));
    set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, std::int64_t{matrix.rows * matrix.stride});
    return layout;
  }

  // Sums that are split over blocks go through the workspace and are joined in a step of their own: an order
  // that does not depend on which block is first.
  cublasLtMatmulPreference_t make_preference() {
    cublasLtMatmulPreference_t preference = nullptr;
    if (!work_.check(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate"))
      return nullptr;
    set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{work_.workspace_bytes});
    set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
    const auto set_alignment = [&](cublasLtMatmulPreferenceAttributes_t which, const OperandShape& matrix) {
      set(preference, which, static_cast<std::uint32_t>(matrix.alignment));
    };
    set_alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, shape_.right);
    set_alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, shape_.left);
    set_alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, shape_.target);
    set_alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, shape_.target);
    return preference;
  }

  // The fastest of those that cuBLASLt proposes, by its own estimate.
  void choose(cublasLtMatmulPreference_t preference, ProductChoice& choice) {
    std::array<cublasLtMatmulHeuristicResult_t, 8> proposals{};
    int count = 0;
    choice.status = cublasLtMatmulAlgoGetHeuristic(
        work_.blas, choice.operation.get(), choice.right.get(), choice.left.get(), choice.target.get(),
        choice.target.get(), preference, static_cast<int>(proposals.size()), proposals.data(), &count);
    if (choice.status != CUBLAS_STATUS_SUCCESS) return;
    const auto usable = [&](const cublasLtMatmulHeuristicResult_t& proposal) {
      return proposal.state == CUBLAS_STATUS_SUCCESS && proposal.workspaceSize <= work_.workspace_bytes;
    };
    const auto given = std::span(proposals).first(static_cast<std::size_t>(count));
    const auto best = std::ranges::find_if(given, usable);
    choice.status = best == given.end() ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
    if (best != given.end()) choice.algorithm = best->algo;
  }

  template<class Value>
  void set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute, Value value) {
    work_.check(cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof value),
                "cublasLtMatmulDescSetAttribute");
  }
  template<class Value>
  void set(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute, Value value) {
    work_.check(cublasLtMatrixLayoutSetAttribute(layout, attribute, &value, sizeof value),
                "cublasLtMatrixLayoutSetAttribute");
  }
  template<class Value>
  void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
           Value value) {
    work_.check(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value),
                "cublasLtMatmulPreferenceSetAttribute");
  }

  CudaWork& work_;
  const ProductShape& shape_;
  const float* bias_;
};

}  // namespace

void CudaProduct::set(Transposed transposed, const Left& left, const Right& right, const Target& target,
                      std::int64_t matrix_count) const {
  if (!work_.good()) return;
  const ProductShape shape = shape_of(transposed, left, right, target, matrix_count);
  run(choice(shape, nullptr), 0, left.first, right.first, target.first);
}

void CudaProduct::add(Transposed transposed, const Left& left, const Right& right,
                      const Target& target) const {
  if (!work_.good()) return;
  ProductShape shape = shape_of(transposed, left, right, target, 1);
  shape.adds = true;
  run(choice(shape, nullptr), 1, left.first, right.first, target.first);
}

bool CudaProduct::set_with_bias(const Left& left, const Right& right, const float* bias,
                                const Target& target) const {
  if (!work_.good()) return true;
  ProductShape shape = shape_of(Transposed::neither, left, right, target, 1);
  shape.has_bias = true;
  const ProductChoice& chosen = choice(shape, bias);
  if (chosen.status != CUBLAS_STATUS_SUCCESS && work_.good()) return false;
  if (work_.good())
    work_.check(cublasLtMatmulDescSetAttribute(chosen.operation.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                               &bias, sizeof bias),
                "cublasLtMatmulDescSetAttribute");
  run(chosen, 0, left.first, right.first, target.first);
  return true;
}

ProductChoice& CudaProduct::choice(const ProductShape& shape, const float* bias) const {
  const auto known = choices_.find(shape);
  if (known != choices_.end()) return known->second;
  return choices_.emplace(shape, ChoiceBuilder(work_, shape, bias).build()).first->second;
}

void CudaProduct::run(const ProductChoice& choice, float beta, const float* left, const float* right,
                      float* target) const {
  if (!work_.good() || !work_.check(choice.status, "cublasLtMatmulAlgoGetHeuristic")) return;
  const float alpha = 1;
  work_.check(
      cublasLtMatmul(work_.blas, choice.operation.get(), &alpha, right, choice.right.get(), left,
                     choice.left.get(), &beta, target, choice.target.get(), target, choice.target.get(),
                     &choice.algorithm, work_.workspace, work_.workspace_bytes, work_.stream),
      "cublasLtMatmul");
}

}  // namespace pipeplan
