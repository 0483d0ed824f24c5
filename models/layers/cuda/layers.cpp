#include "models/layers/cuda/layers.hpp"

#include <fmt/format.h>

#include "models/base/assert.hpp"
#include "models/layers/cuda/cuda_layer.hpp"

namespace pipeplan {
namespace {

Result<std::vector<std::unique_ptr<FloatLayer>>> make_inner(const LayerSpec& spec, const std::string& where,
                                                            CudaWork& work) {
  std::vector<std::unique_ptr<FloatLayer>> inner;
  for (std::size_t i = 0; i < spec.inner.size(); ++i) {
    PIPEPLAN_TRY(layer, make_cuda_layer(spec.inner[i], fmt::format("{}/inner/{}", where, i), work));
    inner.push_back(std::move(layer));
  }
  return inner;
}

}  // namespace

Result<std::unique_ptr<FloatLayer>> make_cuda_layer(const LayerSpec& spec, const std::string& where,
                                                    CudaWork& work) {
  PIPEPLAN_TRY(twin, make_layer<float>(spec, where));
  switch (spec.kind) {
    case LayerKind::embedding: return make_cuda_embedding(spec, std::move(twin), work);
    case LayerKind::linear: return make_cuda_linear(spec, std::move(twin), work);
    case LayerKind::gelu: return make_cuda_gelu(spec, std::move(twin), work);
    case LayerKind::relu: return make_cuda_relu(spec, std::move(twin), work);
    case LayerKind::layer_norm: return make_cuda_layer_norm(spec, std::move(twin), work);
    case LayerKind::attention: return make_cuda_attention(spec, std::move(twin), work);
    case LayerKind::cross_entropy: return make_cuda_cross_entropy(spec, std::move(twin), work);
    case LayerKind::mean_squared_error: return make_cuda_mean_squared_error(spec, std::move(twin), work);
    case LayerKind::residual: {
      PIPEPLAN_TRY(inner, make_inner(spec, where, work));
      return make_cuda_residual(spec, std::move(twin), work, std::move(inner));
    }
  }
  PIPEPLAN_UNREACHABLE("a layer kind without a CUDA layer");
}

}  // namespace pipeplan
