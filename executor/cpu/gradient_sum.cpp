#include "executor/cpu/gradient_sum.hpp"

#include <algorithm>

#include "models/layers/layer.hpp"

namespace pipeplan {
namespace {

// Peer `peer`'s share of `gradients`: shares start aligned, so that no two peers write to one cache line; the
// last may be shorter, in a small layer empty.
std::span<float> share_of(std::span<float> gradients, std::size_t peer, std::size_t peers) {
  const auto each = static_cast<std::size_t>(
      aligned_count<float>(static_cast<std::int64_t>((gradients.size() + peers - 1) / peers)));
  const std::size_t first = std::min(each * peer, gradients.size());
  return gradients.subspan(first, std::min(each, gradients.size() - first));
}

}  // namespace

void reduce_scatter(const PeerGradients& peers, std::size_t own) {
  std::vector<std::span<float>> terms;
  for (const std::span<float> gradients : peers) terms.push_back(share_of(gradients, own, peers.size()));
  for (std::size_t i = 0; i < terms[own].size(); ++i) {
    float sum = terms.front()[i];
    for (std::size_t peer = 1; peer < terms.size(); ++peer) sum += terms[peer][i];
    terms[own][i] = sum;
  }
}

void all_gather(const PeerGradients& peers, std::size_t own) {
  for (std::size_t peer = 0; peer < peers.size(); ++peer)
    if (peer != own)
      std::ranges::copy(share_of(peers[peer], peer, peers.size()),
                        share_of(peers[own], peer, peers.size()).begin());
}

}  // namespace pipeplan
