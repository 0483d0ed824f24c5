// Laws that hold for every instance, whatever the optimum is.

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>

#include "planner/chain_dp.hpp"
#include "planner/even_split.hpp"
#include "tests/planner/instances.hpp"

using namespace pipeplan;
using namespace pipeplan::test;

namespace {

constexpr std::uint64_t seeds = 300;

void scale(std::vector<std::int64_t>& sums, std::int64_t factor) {
  for (std::int64_t& sum : sums) sum *= factor;
}

std::int64_t value_or_most(const SplitAnswer& answer) {
  return answer ? answer->slowest_ns : std::numeric_limits<std::int64_t>::max();
}

// Layers in the opposite order; a chain's cuts turn with them.
Profile reversed(const Profile& profile) {
  Profile turned = profile;
  std::vector<ProfiledLayer> layers = profile.layers.values();
  std::reverse(layers.begin(), layers.end());
  turned.layers = PerId<LayerId, ProfiledLayer>(std::move(layers));
  return turned;
}

}  // namespace

TEST_CASE("chain_dp: doubling every time doubles the value and moves no cut") {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    INFO("seed ", seed);
    Random random(seed);
    Instance instance = random_instance(random);
    for (DeviceType& device : instance.problem.devices) device.speed_factor = 1;
    instance.problem.transfers = TransferMode::uncontended;
    const SplitAnswer once = chain_dp(instance.asked());
    for (auto* sums :
         {&instance.table.forward, &instance.table.backward_input, &instance.table.backward_weight})
      scale(*sums, 2);
    const SplitAnswer twice = chain_dp(instance.asked());
    REQUIRE(once.has_value() == twice.has_value());
    if (!once) continue;
    CHECK(twice->slowest_ns == 2 * once->slowest_ns);
    CHECK(twice->bounds == once->bounds);
  }
}

TEST_CASE("chain_dp: more memory never hurts") {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    INFO("seed ", seed);
    Random random(seed);
    Instance instance = random_instance(random);
    const std::int64_t tight = value_or_most(chain_dp(instance.asked()));
    for (DeviceType& device : instance.problem.devices)
      if (device.memory) *device.memory += Bytes{random.between(1, 8)};
    CHECK(value_or_most(chain_dp(instance.asked())) <= tight);
  }
}

TEST_CASE("chain_dp: higher bandwidth never hurts") {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    INFO("seed ", seed);
    Random random(seed);
    Instance instance = random_instance(random);
    const std::int64_t slow = value_or_most(chain_dp(instance.asked()));
    for (Link& link : instance.problem.links)
      if (link.bandwidth) link.bandwidth = BytesPerSecond{2 * link.bandwidth->value};
    CHECK(value_or_most(chain_dp(instance.asked())) <= slow);
  }
}

TEST_CASE("chain_dp: a layer that costs nothing at the end changes no value") {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    INFO("seed ", seed);
    Random random(seed);
    const std::int64_t layers = random.between(2, 9);
    const std::int64_t stages = random.between(1, layers);
    std::vector<std::int64_t> times;
    for (std::int64_t i = 0; i < layers; ++i) times.push_back(random.between(1, 9));
    Instance shorter = instance_of(chain_of_times(times), stages);
    times.push_back(0);
    Instance longer = instance_of(chain_of_times(times), stages);
    CHECK(chain_dp(longer.asked())->slowest_ns == chain_dp(shorter.asked())->slowest_ns);
    // With one stage more, the last one can hold the empty layer alone.
    Instance wider = instance_of(chain_of_times(times), stages + 1);
    CHECK(chain_dp(wider.asked())->slowest_ns <= chain_dp(shorter.asked())->slowest_ns);
  }
}

TEST_CASE("chain_dp: no value is below the trivial bound, none above the even split") {
  int beaten = 0;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    INFO("seed ", seed);
    Random random(seed);
    Instance instance = random_instance(random);
    const SplitAnswer exact = chain_dp(instance.asked());
    const SplitAnswer even = even_split(instance.asked());
    if (exact) CHECK(exact->slowest_ns >= trivial_bound(instance.asked()));
    if (!even) continue;
    REQUIRE(exact);
    CHECK(*exact <= *even);
    beaten += exact->slowest_ns < even->slowest_ns ? 1 : 0;
  }
  CHECK(beaten > 30);
}

TEST_CASE("chain_dp: a chain read backwards has the same value on equal devices without limits") {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    INFO("seed ", seed);
    Random random(seed);
    const std::int64_t layers = random.between(1, 12);
    const Profile profile = random_profile(random, layers);
    const std::int64_t stages = random.between(1, layers);
    Instance forwards = instance_of(profile, stages);
    Instance backwards = instance_of(reversed(profile), stages);
    CHECK(chain_dp(forwards.asked())->slowest_ns == chain_dp(backwards.asked())->slowest_ns);
  }
}

TEST_CASE("trivial_bound: the larger of an equal share and the largest layer, rounded up") {
  Instance shared = instance_of(chain_of_times({3, 3, 4}), 3);
  CHECK(trivial_bound(shared.asked()) == 4);
  Instance even = instance_of(chain_of_times({3, 3, 4, 1}), 2);
  CHECK(trivial_bound(even.asked()) == (3 + 3 + 4 + 1 + 1) / 2);
  even.problem.devices[1].speed_factor = 2;  // the fastest device counts
  CHECK(trivial_bound(even.asked()) == 3);   // 11 / 2 rounds up to 6, shared by 2
}
