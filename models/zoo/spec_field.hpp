#pragma once

// The sizes of a model spec as a table, so that building, writing and reading agree on names and limits.

#include <array>
#include <cstdint>

#include "models/base/units.hpp"
#include "models/model_graph.hpp"

namespace pipeplan {

// Largest size of a network, and largest count of repeated layers. Four times a width is still a size that a
// layer takes, and the learned values of the largest network (about 2^60) can be counted in int64.
inline constexpr std::int64_t largest_model_size = 1 << 20;
inline constexpr std::int64_t largest_model_depth = 1 << 16;
// Networks with more learned values (4 TiB of float) are refused.
inline constexpr std::int64_t largest_parameter_count = std::int64_t{1} << 40;

template<class Spec>
struct SpecField {
  const char* key;
  std::int64_t Spec::*value;
  std::int64_t least = 1;
  std::int64_t most = largest_model_size;
};

constexpr auto spec_fields(const MlpSpec&) {
  return std::to_array<SpecField<MlpSpec>>({{"inputs", &MlpSpec::inputs},
                                            {"width", &MlpSpec::width},
                                            {"layers", &MlpSpec::layers, 1, largest_model_depth},
                                            {"outputs", &MlpSpec::outputs},
                                            {"seed", &MlpSpec::seed, 0, largest_document_integer}});
}

constexpr auto spec_fields(const TransformerSpec&) {
  return std::to_array<SpecField<TransformerSpec>>(
      {{"blocks", &TransformerSpec::blocks, 1, largest_model_depth},
       {"hidden", &TransformerSpec::hidden},
       {"heads", &TransformerSpec::heads},
       {"sequence", &TransformerSpec::sequence},
       {"vocabulary", &TransformerSpec::vocabulary},
       {"seed", &TransformerSpec::seed, 0, largest_document_integer}});
}

}  // namespace pipeplan
