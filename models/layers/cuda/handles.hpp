#pragma once

// Owners of what CUDA hands out: each gives its thing back when it goes. Giving back cannot fail usefully, so
// those statuses alone are not looked at.

#include <cublasLt.h>
#include <cuda.h>
#include <cuda_runtime.h>

#include <memory>
#include <type_traits>

namespace pipeplan {

template<auto give_back>
struct GiveBack {
  template<class T>
  void operator()(T* thing) const {
    (void)give_back(thing);
  }
};

using CudaStream = std::unique_ptr<std::remove_pointer_t<cudaStream_t>, GiveBack<cudaStreamDestroy>>;
using CudaEventOwner = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, GiveBack<cudaEventDestroy>>;
using CudaPool = std::unique_ptr<std::remove_pointer_t<cudaMemPool_t>, GiveBack<cudaMemPoolDestroy>>;
using BlasOwner = std::unique_ptr<std::remove_pointer_t<cublasLtHandle_t>, GiveBack<cublasLtDestroy>>;

// cudaMalloc's memory, and host memory that the device reads directly.
inline cudaError_t free_device(void* memory) { return cudaFree(memory); }
using DeviceMemory = std::unique_ptr<void, GiveBack<free_device>>;
inline cudaError_t free_pinned(void* memory) { return cudaFreeHost(memory); }
using PinnedMemory = std::unique_ptr<void, GiveBack<free_pinned>>;

// A green context, with the driver's function that destroys it: the driver is not linked.
struct DestroyGreenContext {
  CUresult (*destroy)(CUgreenCtx) = nullptr;
  void operator()(CUgreenCtx context) const { (void)destroy(context); }
};
using GreenContext = std::unique_ptr<std::remove_pointer_t<CUgreenCtx>, DestroyGreenContext>;

}  // namespace pipeplan
