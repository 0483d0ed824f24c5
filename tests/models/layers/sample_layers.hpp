#pragma once

// A small layer of every kind, with odd sizes that fill no vector register evenly.

#include <string>
#include <vector>

#include "models/layers/layer_spec.hpp"

namespace pipeplan::test {

struct SampleLayer {
  std::string name;
  LayerSpec spec;
};

inline LayerSpec sample_part(LayerKind kind, std::int64_t rows, std::int64_t inputs, std::int64_t outputs) {
  return {.kind = kind, .rows_per_sample = rows, .inputs = inputs, .outputs = outputs};
}

inline LayerSpec sample_attention(std::int64_t rows, std::int64_t width, std::int64_t heads) {
  LayerSpec spec = sample_part(LayerKind::attention, rows, 3 * width, width);
  spec.heads = heads;
  return spec;
}

inline LayerSpec sample_embedding(std::int64_t rows, std::int64_t vocabulary, std::int64_t width) {
  LayerSpec spec = sample_part(LayerKind::embedding, rows, 1, width);
  spec.vocabulary = vocabulary;
  return spec;
}

inline LayerSpec sample_residual(std::int64_t rows, std::int64_t width, std::vector<LayerSpec> inner) {
  LayerSpec spec = sample_part(LayerKind::residual, rows, width, width);
  spec.inner = std::move(inner);
  return spec;
}

inline LayerSpec sample_attention_block(std::int64_t rows, std::int64_t width, std::int64_t heads) {
  return sample_residual(
      rows, width,
      {sample_part(LayerKind::layer_norm, rows, width, width),
       sample_part(LayerKind::linear, rows, width, 3 * width), sample_attention(rows, width, heads),
       sample_part(LayerKind::linear, rows, width, width)});
}

inline LayerSpec sample_mlp_block(std::int64_t rows, std::int64_t width) {
  return sample_residual(rows, width,
                         {sample_part(LayerKind::layer_norm, rows, width, width),
                          sample_part(LayerKind::linear, rows, width, 4 * width),
                          sample_part(LayerKind::gelu, rows, 4 * width, 4 * width),
                          sample_part(LayerKind::linear, rows, 4 * width, width)});
}

inline std::vector<SampleLayer> sample_layers() {
  return {{"embedding", sample_embedding(5, 11, 7)},
          {"linear", sample_part(LayerKind::linear, 3, 7, 5)},
          {"linear on one row", sample_part(LayerKind::linear, 1, 1, 1)},
          {"gelu", sample_part(LayerKind::gelu, 3, 7, 7)},
          {"gelu in several pieces", sample_part(LayerKind::gelu, 3, 501, 501)},
          {"relu", sample_part(LayerKind::relu, 3, 7, 7)},
          {"layer_norm", sample_part(LayerKind::layer_norm, 3, 7, 7)},
          {"attention", sample_attention(5, 6, 2)},
          {"attention block", sample_attention_block(5, 6, 2)},
          {"mlp block", sample_mlp_block(3, 5)},
          {"residual in a residual",
           sample_residual(4, 6,
                           {sample_attention_block(4, 6, 3), sample_part(LayerKind::relu, 4, 6, 6),
                            sample_mlp_block(4, 6)})},
          {"cross_entropy", sample_part(LayerKind::cross_entropy, 3, 7, 0)},
          {"mean_squared_error", sample_part(LayerKind::mean_squared_error, 3, 7, 0)}};
}

}  // namespace pipeplan::test
