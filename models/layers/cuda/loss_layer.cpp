#include "models/layers/cuda/cuda_layer.hpp"
#include "models/layers/cuda/kernels.hpp"

namespace pipeplan {
namespace {

// The rows' losses wait in scratch for their sum.
class CudaLoss : public CudaLayer {
 public:
  using CudaLayer::CudaLayer;

  std::int64_t scratch_count(std::int64_t batch) const final { return aligned_count<float>(rows(batch)); }

 protected:
  [[nodiscard]] std::int64_t width() const { return spec().inputs; }
};

class CudaCrossEntropy final : public CudaLoss {
 public:
  using CudaLoss::CudaLoss;

  void forward(std::int64_t batch, const float*, float* stash, float* output, float* scratch) const override {
    launch("cross entropy", launch_cross_entropy, rows(batch), width(), stash, stash + target_offset(batch),
           scratch);
    launch("mean loss", launch_mean_loss, rows(batch), rows(batch), scratch, output);
  }

  void backward_input(std::int64_t batch, const float*, const float* stash, const float* grad_output,
                      float* grad_input, float*, float*) const override {
    if (grad_input == nullptr) return;
    launch("cross entropy backward", launch_cross_entropy_backward, rows(batch), width(), stash,
           stash + target_offset(batch), grad_output, grad_input);
  }
};

class CudaMeanSquaredError final : public CudaLoss {
 public:
  using CudaLoss::CudaLoss;

  void forward(std::int64_t batch, const float*, float* stash, float* output, float* scratch) const override {
    launch("squared error", launch_squared_error, rows(batch), width(), stash, stash + target_offset(batch),
           scratch);
    launch("mean loss", launch_mean_loss, rows(batch), input_count(batch), scratch, output);
  }

  void backward_input(std::int64_t batch, const float*, const float* stash, const float* grad_output,
                      float* grad_input, float*, float*) const override {
    if (grad_input == nullptr) return;
    launch("squared error backward", launch_squared_error_backward, input_count(batch), stash,
           stash + target_offset(batch), grad_output, grad_input);
  }
};

}  // namespace

std::unique_ptr<FloatLayer> make_cuda_cross_entropy(const LayerSpec& spec, std::unique_ptr<FloatLayer> twin,
                                                    CudaWork& work) {
  return std::make_unique<CudaCrossEntropy>(spec, std::move(twin), work);
}

std::unique_ptr<FloatLayer> make_cuda_mean_squared_error(const LayerSpec& spec,
                                                         std::unique_ptr<FloatLayer> twin, CudaWork& work) {
  return std::make_unique<CudaMeanSquaredError>(spec, std::move(twin), work);
}

}  // namespace pipeplan
