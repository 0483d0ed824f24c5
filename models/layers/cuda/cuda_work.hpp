#pragma once

// What a CUDA layer needs to launch its work: a stream, a cuBLASLt handle with a workspace of its own, and a
// place where the first failure is kept. The queue owns it; layers hold a reference.

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <optional>
#include <string>

#include "models/base/result.hpp"
#include "models/layers/processor.hpp"

namespace pipeplan {

class CudaWork {
 public:
  CudaWork(std::string queue_name, int device, int sm_count)
      : queue_name_(std::move(queue_name)), device_(device), sm_count_(sm_count) {}

  cudaStream_t stream = nullptr;
  cublasLtHandle_t blas = nullptr;
  void* workspace = nullptr;  // of the products; 32 MiB, as the vendor advises for Hopper
  std::size_t workspace_bytes = 0;
  bool tf32 = false;  // whether products may round their inputs to TF32

  [[nodiscard]] int device() const { return device_; }
  [[nodiscard]] int sm_count() const { return sm_count_; }  // that its kernels can use

  // Notes the first failure with the call, layer, pass, queue and device; false from then on. Everything
  // that launches asks good() first and then checks every call.
  bool check(cudaError_t status, const char* call);
  bool check(cublasStatus_t status, const char* call);
  // After a kernel launch.
  bool check_launch(const char* kernel) { return check(cudaGetLastError(), kernel); }
  [[nodiscard]] bool good() const { return !failure_; }
  // The first failure, taken.
  Result<void> take_failure();

  void set_label(const std::optional<LaunchLabel>& label) { label_ = label; }

 private:
  void fail(const std::string& what);

  std::string queue_name_;
  int device_, sm_count_;
  std::optional<LaunchLabel> label_;
  std::optional<Error> failure_;
};

}  // namespace pipeplan
