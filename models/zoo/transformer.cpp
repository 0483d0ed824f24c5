#include "models/zoo/transformer.hpp"

#include <fmt/format.h>

#include <string>

namespace pipeplan {
namespace {

// Learned values by part; h = hidden, V = vocabulary, s = sequence.
std::int64_t embedding_parameters(const TransformerSpec& spec) {  // (V + s) h
  return (spec.vocabulary + spec.sequence) * spec.hidden;
}
std::int64_t attention_parameters(std::int64_t h) {  // norm, h to 3h, h to h
  return 2 * h + (3 * h * h + 3 * h) + (h * h + h);
}
std::int64_t mlp_parameters(std::int64_t h) {  // norm, h to 4h, 4h to h
  return 2 * h + (4 * h * h + 4 * h) + (4 * h * h + h);
}
std::int64_t head_parameters(const TransformerSpec& spec) {  // h to V
  return spec.hidden * spec.vocabulary + spec.vocabulary;
}

// The layers of one transformer; all have a row for each token.
class Parts {
 public:
  explicit Parts(const TransformerSpec& spec) : spec_(spec), h_(spec.hidden) {}

  [[nodiscard]] Layer embedding() const {
    LayerSpec layer = part(LayerKind::embedding, 1, h_);
    layer.vocabulary = spec_.vocabulary;
    return {"embedding", "embedding", embedding_parameters(spec_), layer};
  }

  [[nodiscard]] Layer attention(std::int64_t block) const {
    LayerSpec core = part(LayerKind::attention, 3 * h_, h_);
    core.heads = spec_.heads;
    const LayerSpec layer =
        residual({part(LayerKind::layer_norm, h_, h_), part(LayerKind::linear, h_, 3 * h_), core,
                  part(LayerKind::linear, h_, h_)});
    return {fmt::format("block.{}.attention", block), "attention", attention_parameters(h_), layer};
  }

  [[nodiscard]] Layer mlp(std::int64_t block) const {
    const LayerSpec layer =
        residual({part(LayerKind::layer_norm, h_, h_), part(LayerKind::linear, h_, 4 * h_),
                  part(LayerKind::gelu, 4 * h_, 4 * h_), part(LayerKind::linear, 4 * h_, h_)});
    return {fmt::format("block.{}.mlp", block), "mlp", mlp_parameters(h_), layer};
  }

  [[nodiscard]] Layer norm() const {
    return {"norm", "layer_norm", 2 * h_, part(LayerKind::layer_norm, h_, h_)};
  }

  [[nodiscard]] Layer head() const {
    return {"head", "linear", head_parameters(spec_), part(LayerKind::linear, h_, spec_.vocabulary)};
  }

  [[nodiscard]] Layer loss() const {
    return {"loss", "cross_entropy", 0, part(LayerKind::cross_entropy, spec_.vocabulary, 0)};
  }

 private:
  [[nodiscard]] LayerSpec part(LayerKind kind, std::int64_t inputs, std::int64_t outputs) const {
    return {.kind = kind, .rows_per_sample = spec_.sequence, .inputs = inputs, .outputs = outputs};
  }
  [[nodiscard]] LayerSpec residual(std::vector<LayerSpec> inner) const {
    LayerSpec layer = part(LayerKind::residual, h_, h_);
    layer.inner = std::move(inner);
    return layer;
  }

  const TransformerSpec& spec_;
  std::int64_t h_;
};

}  // namespace

Result<ModelGraph> build_transformer(const TransformerSpec& spec) {
  if (spec.hidden % spec.heads != 0)
    return bad_input("transformer", fmt::format("heads is {}, wanted a divisor of hidden, which is {}",
                                                spec.heads, spec.hidden));
  const Parts parts(spec);
  PerId<LayerId, Layer> layers = {parts.embedding()};
  for (std::int64_t block = 0; block < spec.blocks; ++block) {
    layers.push_back(parts.attention(block));
    layers.push_back(parts.mlp(block));
  }
  for (Layer& layer : std::vector{parts.norm(), parts.head(), parts.loss()})
    layers.push_back(std::move(layer));
  return ModelGraph::make("transformer", std::move(layers), {}, "transformer");
}

std::int64_t parameter_total(const TransformerSpec& spec) {
  return embedding_parameters(spec) +
         spec.blocks * (attention_parameters(spec.hidden) + mlp_parameters(spec.hidden)) + 2 * spec.hidden +
         head_parameters(spec);
}

}  // namespace pipeplan
