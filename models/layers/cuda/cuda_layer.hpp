#pragma once

// What all CUDA layers share: the CPU's layer of the same sizes, which knows the parameters and fills them
// with their first values, and the work that they launch on. The kinds of layer override what they do
// otherwise: no stash but the CPU's, nothing deferred, no scratch, no parameters.

#include <memory>
#include <vector>

#include "models/layers/cuda/cuda_work.hpp"
#include "models/layers/layer.hpp"

namespace pipeplan {

using FloatLayer = RunnableLayer<float>;

class CudaLayer : public FloatLayer {
 public:
  CudaLayer(LayerSpec spec, std::unique_ptr<FloatLayer> twin, CudaWork& work)
      : spec_(std::move(spec)), twin_(std::move(twin)), work_(work) {}

  std::int64_t parameter_count() const final { return twin_->parameter_count(); }
  std::int64_t parameter_buffer_count() const final { return twin_->parameter_buffer_count(); }
  std::int64_t input_count(std::int64_t batch) const final { return twin_->input_count(batch); }
  std::int64_t output_count(std::int64_t batch) const final { return twin_->output_count(batch); }
  std::int64_t target_offset(std::int64_t batch) const final { return twin_->target_offset(batch); }
  std::int64_t target_count(std::int64_t batch) const final { return twin_->target_count(batch); }
  std::int64_t stash_count(std::int64_t batch) const override { return twin_->stash_count(batch); }
  std::int64_t deferred_count(std::int64_t) const override { return 0; }
  std::int64_t scratch_count(std::int64_t) const override { return 0; }

  // On host memory.
  void initialize(float* parameters, std::uint64_t seed) const final { twin_->initialize(parameters, seed); }

  void backward_weight(std::int64_t, const float*, const float*, const float*, const float*, float*,
                       float*) const override {}

 protected:
  [[nodiscard]] const LayerSpec& spec() const { return spec_; }
  [[nodiscard]] CudaWork& work() const { return work_; }
  [[nodiscard]] std::int64_t rows(std::int64_t batch) const { return batch * spec_.rows_per_sample; }

  // Whether to go on, with the work's device made the thread's.
  [[nodiscard]] bool ready() const {
    return work_.good() && work_.check(cudaSetDevice(work_.device()), "cudaSetDevice");
  }

  // Enqueues one of kernels.hpp.
  template<class Launcher, class... Arguments>
  void launch(const char* name, Launcher launcher, const Arguments&... arguments) const {
    if (!ready()) return;
    launcher(work_.stream, arguments...);
    work_.check_launch(name);
  }

  void copy(const float* from, float* to, std::int64_t count) const {
    if (!ready()) return;
    const auto bytes = static_cast<std::size_t>(count) * sizeof(float);
    work_.check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, work_.stream), "cudaMemcpyAsync");
  }

  void zero(float* place, std::int64_t count) const {
    if (!ready()) return;
    const auto bytes = static_cast<std::size_t>(count) * sizeof(float);
    work_.check(cudaMemsetAsync(place, 0, bytes, work_.stream), "cudaMemsetAsync");
  }

 private:
  LayerSpec spec_;
  std::unique_ptr<FloatLayer> twin_;
  CudaWork& work_;
};

// The kinds of layer, one file each. `twin` is the CPU's layer of `spec`.
std::unique_ptr<FloatLayer> make_cuda_relu(const LayerSpec& spec, std::unique_ptr<FloatLayer> twin,
                                           CudaWork& work);
std::unique_ptr<FloatLayer> make_cuda_gelu(const LayerSpec& spec, std::unique_ptr<FloatLayer> twin,
                                           CudaWork& work);
std::unique_ptr<FloatLayer> make_cuda_linear(const LayerSpec& spec, std::unique_ptr<FloatLayer> twin,
                                             CudaWork& work);
std::unique_ptr<FloatLayer> make_cuda_layer_norm(const LayerSpec& spec, std::unique_ptr<FloatLayer> twin,
                                                 CudaWork& work);
std::unique_ptr<FloatLayer> make_cuda_embedding(const LayerSpec& spec, std::unique_ptr<FloatLayer> twin,
                                                CudaWork& work);
std::unique_ptr<FloatLayer> make_cuda_attention(const LayerSpec& spec, std::unique_ptr<FloatLayer> twin,
                                                CudaWork& work);
std::unique_ptr<FloatLayer> make_cuda_cross_entropy(const LayerSpec& spec, std::unique_ptr<FloatLayer> twin,
                                                    CudaWork& work);
std::unique_ptr<FloatLayer> make_cuda_mean_squared_error(const LayerSpec& spec,
                                                         std::unique_ptr<FloatLayer> twin, CudaWork& work);
// `inner`: CUDA layers of spec.inner.
std::unique_ptr<FloatLayer> make_cuda_residual(const LayerSpec& spec, std::unique_ptr<FloatLayer> twin,
                                               CudaWork& work,
                                               std::vector<std::unique_ptr<FloatLayer>> inner);

}  // namespace pipeplan
