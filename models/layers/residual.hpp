#pragma once

// y = x + inner(x), the inner layers one after the other.
//   parameters  those of the inner layers, in order.
//   stash       theirs too: the first begins with x, each layer's output goes straight into the next one's.
//   deferred    per inner layer its output's gradient (the last one's is grad_output), then its deferred.
//   scratch     the last inner output, then the scratch that any inner layer needs.

#include <memory>
#include <vector>

#include "models/layers/layer.hpp"

namespace pipeplan {

// `inner` are the layers of spec.inner.
template<class Scalar>
std::unique_ptr<RunnableLayer<Scalar>> make_residual(
    const LayerSpec& spec, std::vector<std::unique_ptr<RunnableLayer<Scalar>>> inner);

}  // namespace pipeplan
