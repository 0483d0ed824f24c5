#include "models/layers/cuda/cuda_work.hpp"

#include <fmt/format.h>

#include <utility>

namespace pipeplan {

bool CudaWork::check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return good();
  (void)cudaGetLastError();  // it would show in the next launch that is checked
  fail(fmt::format("{} failed: {} ({})", call, cudaGetErrorString(status), cudaGetErrorName(status)));
  return false;
}

bool CudaWork::check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return good();
  fail(fmt::format("{} failed: {} ({})", call, cublasLtGetStatusString(status),
                   cublasLtGetStatusName(status)));
  return false;
}

Result<void> CudaWork::take_failure() {
  if (!failure_) return {};
  return Failure(*std::exchange(failure_, std::nullopt));
}

void CudaWork::fail(const std::string& what) {
  if (failure_) return;
  const std::string where = fmt::format("{}, GPU {}", queue_name_, device_);
  const std::string labelled = label_ ? fmt::format("{} in layer {}, {}, micro-batch {}", what, label_->layer,
                                                    spelt(label_->pass), label_->micro_batch)
                                      : what;
  failure_ = Error{ErrorCode::unavailable, labelled, where, {}};
}

}  // namespace pipeplan
