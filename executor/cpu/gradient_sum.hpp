#pragma once

// The all-reduce of one layer's gradients between peers in shared memory. Each peer owns a share of the
// scalars; what it computes is the sum over all peers in their order, the same whoever computes it when.

#include <cstddef>
#include <span>
#include <vector>

namespace pipeplan {

// A layer's gradients on each peer, all of one size.
using PeerGradients = std::vector<std::span<float>>;

// Leaves the sum over all peers in peer `own`'s share of its own gradients.
void reduce_scatter(const PeerGradients& peers, std::size_t own);
// Fetches the shares that the others have summed.
void all_gather(const PeerGradients& peers, std::size_t own);

}  // namespace pipeplan
