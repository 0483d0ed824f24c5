#include "models/layers/cuda/cuda_layer.hpp"
#include "models/layers/cuda/kernels.hpp"

namespace pipeplan {
namespace {

class CudaEmbedding final : public CudaLayer {
 public:
  using CudaLayer::CudaLayer;

  void forward(std::int64_t batch, const float* parameters, float* stash, float* output,
               float*) const override {
    launch("embedding", launch_embedding, shape(batch), stash, parameters, parameters + position_offset(),
           output);
  }

  void backward_input(std::int64_t batch, const float*, const float*, const float*, float* grad_input, float*,
                      float*) const override {
    if (grad_input != nullptr) zero(grad_input, input_count(batch));
  }

  void backward_weight(std::int64_t batch, const float*, const float* stash, const float* grad_output,
                       const float*, float* grad_parameters, float*) const override {
    launch("embedding backward", launch_embedding_backward, shape(batch), stash, grad_output, grad_parameters,
           grad_parameters + position_offset());
  }

 private:
  [[nodiscard]] EmbeddingShape shape(std::int64_t batch) const {
    return {.rows = rows(batch),
            .rows_per_sample = spec().rows_per_sample,
            .vocabulary = spec().vocabulary,
            .width = spec().outputs};
  }
  [[nodiscard]] std::int64_t position_offset() const {
    return aligned_count<float>(spec().vocabulary * spec().outputs);
  }
};

}  // namespace

std::unique_ptr<FloatLayer> make_cuda_embedding(const LayerSpec& spec, std::unique_ptr<FloatLayer> twin,
                                                CudaWork& work) {
  return std::make_unique<CudaEmbedding>(spec, std::move(twin), work);
}

}  // namespace pipeplan
