#pragma once

// What a measured profile knows before anything is timed, whatever it is measured on: the model's layers and
// edges, and the sizes of what each layer holds.

#include "models/layers/segment.hpp"
#include "profiler/profile.hpp"

namespace pipeplan {

// Without costs. `layers` are the model's, on any processor; of `source` all but the kind.
Profile measured_outline(const ModelGraph& model, const RunnableLayers& layers, ProfileSource source);

// Without times.
LayerCost layer_sizes(const RunnableLayer<float>& layer, std::int64_t batch);

}  // namespace pipeplan
