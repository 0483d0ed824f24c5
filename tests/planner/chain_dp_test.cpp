#include "planner/chain_dp.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>
#include <utility>

#include "planner/brute_force.hpp"
#include "planner/memory.hpp"
#include "tests/planner/instances.hpp"

using namespace pipeplan;
using namespace pipeplan::test;
using Bounds = std::vector<std::int64_t>;

namespace {

std::string shown(const SplitAnswer& answer) {
  if (!answer) return "no split";
  return fmt::format("{} ns, {} bytes moved, {} bytes held, {}", answer->slowest_ns, answer->transfer_bytes,
                     answer->largest_memory, fmt::join(answer->bounds, " "));
}

// Checks an instance against brute force, and counts what the instances were good for.
struct Tally {
  int limited = 0, infeasible = 0, constrained = 0;

  void check(Instance instance) {
    const SplitAnswer expected = brute_force(instance.asked());
    const SplitAnswer answer = chain_dp(instance.asked());
    INFO("expected ", shown(expected), ", got ", shown(answer));
    CHECK(answer == expected);
    Instance unlimited = instance;
    for (DeviceType& device : unlimited.problem.devices) device.memory.reset();
    limited += instance.problem.devices != unlimited.problem.devices ? 1 : 0;
    infeasible += expected ? 0 : 1;
    constrained += expected && *expected != *chain_dp(unlimited.asked()) ? 1 : 0;
  }
};

// Least memory, then smallest boundaries, over all splits that begin with `bounds`.
std::pair<std::int64_t, Bounds> least_memory(const SplitProblem& problem, Bounds bounds) {
  if (static_cast<std::int64_t>(bounds.size()) == problem.stages) {
    bounds.push_back(problem.table->layer_count);
    return {score_split(problem, bounds).largest_memory, bounds};
  }
  std::pair<std::int64_t, Bounds> least{std::numeric_limits<std::int64_t>::max(), {}};
  const std::int64_t stages_behind = problem.stages - static_cast<std::int64_t>(bounds.size());
  for (std::int64_t cut = bounds.back() + 1; cut + stages_behind <= problem.table->layer_count; ++cut) {
    Bounds longer = bounds;
    longer.push_back(cut);
    least = std::min(least, least_memory(problem, longer));
  }
  return least;
}

}  // namespace

TEST_CASE("chain_dp: two equal layers on two devices are split in the middle") {
  Instance instance = instance_of(chain_of_times({7, 7}), 2);
  const SplitAnswer answer = chain_dp(instance.asked());
  REQUIRE(answer);
  CHECK(answer->bounds == Bounds{0, 1, 2});
  CHECK(answer->slowest_ns == 7);
}

TEST_CASE("chain_dp: one stage takes all layers") {
  Instance instance = instance_of(chain_of_times({1, 2, 3}), 1);
  const SplitAnswer answer = chain_dp(instance.asked());
  REQUIRE(answer);
  CHECK(answer->bounds == Bounds{0, 3});
  CHECK(answer->slowest_ns == 1 + 2 + 3);
}

TEST_CASE("chain_dp: as many stages as layers leave no choice") {
  Instance instance = instance_of(chain_of_times({4, 0, 9, 1}), 4);
  CHECK(chain_dp(instance.asked())->bounds == Bounds{0, 1, 2, 3, 4});
}

TEST_CASE("chain_dp: among equally slow splits the fewest transfer bytes win") {
  // Cuts before layers 1 and 2 both give 2 + 1 = 3; the first moves 8 bytes, the second 5.
  Instance instance = instance_of(
      chain_profile({{.forward = 1, .output = 8}, {.forward = 1, .output = 5}, {.forward = 1}}), 2);
  const SplitAnswer answer = chain_dp(instance.asked());
  CHECK(answer->bounds == Bounds{0, 2, 3});
  CHECK(answer->transfer_bytes == 5);
}

TEST_CASE("chain_dp: among equally slow and cheap splits the lowest largest memory wins") {
  // The middle layer holds 4 bytes of activations: beside the first layer they make 4 + 3, beside the last 4
  // + 1.
  Instance instance = instance_of(chain_profile({{.forward = 1, .activation = 3},
                                                 {.forward = 1, .activation = 4},
                                                 {.forward = 1, .activation = 1}}),
                                  2);
  const SplitAnswer answer = chain_dp(instance.asked());
  CHECK(answer->bounds == Bounds{0, 1, 3});
  CHECK(answer->largest_memory == 4 + 1);
}

TEST_CASE("chain_dp: where all else is equal the smallest boundaries win") {
  Instance instance = instance_of(chain_of_times({0, 0, 0, 0, 0}), 3);
  CHECK(chain_dp(instance.asked())->bounds == Bounds{0, 1, 2, 5});
}

TEST_CASE("chain_dp: a slow link moves the cut to the smaller tensor, only if links count") {
  Instance instance = instance_of(chain_profile({{.forward = 10, .output = 9},
                                                 {.forward = 10, .output = 100},
                                                 {.forward = 10, .output = 9},
                                                 {.forward = 10}}),
                                  2);
  instance.problem.links.front().bandwidth = BytesPerSecond{1'000'000'000};  // a byte per ns
  CHECK(chain_dp(instance.asked())->bounds == Bounds{0, 1, 4});
  CHECK(chain_dp(instance.asked())->slowest_ns == 3 * 10);
  instance.problem.transfers = TransferMode::uncontended;
  CHECK(chain_dp(instance.asked())->bounds == Bounds{0, 2, 4});
}

TEST_CASE("chain_dp: the link alone can be the slowest") {
  Instance instance = instance_of(chain_profile({{.forward = 1, .output = 50}, {.forward = 1}}), 2);
  instance.problem.links.front().bandwidth = BytesPerSecond{1'000'000'000};
  CHECK(chain_dp(instance.asked())->slowest_ns == 50);
}

TEST_CASE("chain_dp: receive buffers decide which end of a window fits") {
  // As the second of two stages, layers 1 to 3 need the 6-byte tensor of layer 0, layers 2 to 3 the 1-byte
  // tensor of 1.
  Instance instance = instance_of(chain_profile({{.forward = 1, .output = 6},
                                                 {.forward = 1, .output = 1},
                                                 {.forward = 1, .output = 6},
                                                 {.forward = 1}}),
                                  2);
  for (DeviceType& device : instance.problem.devices) device.memory = Bytes{5};
  CHECK(chain_dp(instance.asked())->bounds == Bounds{0, 2, 4});
  for (DeviceType& device : instance.problem.devices) device.memory = Bytes{0};
  CHECK_FALSE(chain_dp(instance.asked()));
}

TEST_CASE("chain_dp: equals brute force, tie-breaks included, on random small instances") {
  Tally tally;
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    INFO("seed ", seed);
    Random random(seed);
    tally.check(random_instance(random));
  }
  CHECK(tally.limited > 1000);
  CHECK(tally.infeasible > 300);
  CHECK(tally.constrained > 200);
}

TEST_CASE("chain_dp: equals brute force, tie-breaks included, where layers are recomputed") {
  Tally tally;
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    INFO("seed ", seed);
    Random random(seed);
    tally.check(random_recomputing_instance(random));
  }
  CHECK(tally.infeasible > 300);
  CHECK(tally.constrained > 200);
}

TEST_CASE("chain_dp: recomputed layers pay their forward again, wherever they are cut") {
  // Forward 2 and backward 4 each; with all recomputed a layer takes 2 + 4 + 2.
  const Profile profile = chain_profile({{.forward = 2, .backward = 4}, {.forward = 2, .backward = 4}});
  Instance instance = instance_of(profile, 2, 1, {true, true});
  CHECK(chain_dp(instance.asked())->slowest_ns == 2 + 4 + 2);
  Instance half = instance_of(profile, 1, 1, {true, false});
  CHECK(chain_dp(half.asked())->slowest_ns == 2 * (2 + 4) + 2);
}

TEST_CASE("chain_dp: a cut inside a row of recomputed layers makes the second stage keep its input") {
  // Two stages of 1f1b with many micro-batches hold 2 and 1. Cut before layer 1 the second stage keeps the
  // 9-byte input of layer 1, cut before layer 2 the 1-byte input of layer 2; links carry nothing.
  Profile profile = chain_profile({{.activation = 1}, {.activation = 1}, {.activation = 1}});
  const std::int64_t inputs[] = {2, 9, 1};
  for (const LayerId layer : ids<LayerId>(3))
    profile.layers[layer].costs.front().input = Bytes{inputs[layer.index()]};
  Instance instance = instance_of(profile, 2, 8, {true, true, true});
  const auto memory = [&](std::int64_t cut) {
    return std::pair(peak_memory(split_memory(instance.asked(), {0, cut, 3}, 0), 2).value,
                     peak_memory(split_memory(instance.asked(), {0, cut, 3}, 1), 1).value);
  };
  CHECK(memory(1) == std::pair<std::int64_t, std::int64_t>(1 + 2 * 2, 2 * 1 + 9));
  CHECK(memory(2) == std::pair<std::int64_t, std::int64_t>(2 * 1 + 2 * 2, 1 + 1));
  for (DeviceType& device : instance.problem.devices) device.memory = Bytes{2 * 1 + 2 * 2};
  CHECK(chain_dp(instance.asked())->bounds == Bounds{0, 2, 3});
}

TEST_CASE("smallest_memory: equals the least over all splits, and a byte less is too little") {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    INFO("seed ", seed);
    Random random(seed);
    Instance instance = seed % 2 == 0 ? random_instance(random) : random_recomputing_instance(random);
    const SmallestMemory smallest = smallest_memory(instance.asked());
    const auto [memory, bounds] = least_memory(instance.asked(), {0});
    CHECK(smallest.memory == Bytes{memory});
    CHECK(smallest.bounds == bounds);
    SplitProblem with_it = instance.asked();
    for (DeviceType& device : with_it.devices) device.memory = smallest.memory;
    CHECK(chain_dp(with_it));
    for (DeviceType& device : with_it.devices) device.memory = smallest.memory - Bytes{1};
    CHECK_FALSE(chain_dp(with_it));
  }
}
