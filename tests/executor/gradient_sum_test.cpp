#include "executor/cpu/gradient_sum.hpp"

#include <doctest/doctest.h>

#include "tests/support/random.hpp"

namespace pipeplan {

TEST_CASE("gradient sum: all peers end with the sum in the order of peers, to the last bit, at any size") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    INFO("seed " << seed);
    test::Random random(seed);
    const auto peers = static_cast<std::size_t>(random.between(1, 6));
    const auto size = static_cast<std::size_t>(random.between(0, 150));
    std::vector<std::vector<float>> values(peers, std::vector<float>(size));
    std::vector<float> wanted(size);
    for (std::size_t peer = 0; peer < peers; ++peer)
      for (std::size_t i = 0; i < size; ++i) {
        values[peer][i] = static_cast<float>(random.between(-1'000'000, 1'000'000)) / 777;
        wanted[i] = peer == 0 ? values[peer][i] : wanted[i] + values[peer][i];
      }
    PeerGradients gradients;
    for (auto& one : values) gradients.emplace_back(one);
    // Peers sum and gather in any sequence.
    for (std::size_t peer = peers; peer-- > 0;) reduce_scatter(gradients, peer);
    for (std::size_t peer = 0; peer < peers; ++peer) all_gather(gradients, peer);
    for (const auto& one : values) CHECK(one == wanted);
  }
}

}  // namespace pipeplan
