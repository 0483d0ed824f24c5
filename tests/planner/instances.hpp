#pragma once

// Small profiles, clusters and split problems for the planner's tests.

#include <cstdint>
#include <vector>

#include "planner/split.hpp"
#include "profiler/profile.hpp"
#include "tests/support/random.hpp"

namespace pipeplan::test {

struct LayerNumbers {
  std::int64_t forward = 0, backward = 0;
  std::int64_t parameter = 0, activation = 0, output = 0, workspace = 0;
};

// A chain of layers "l0", "l1", …, profiled at micro-batch size 1.
Profile chain_profile(const std::vector<LayerNumbers>& layers);
// Layers that take nothing but these forward times.
Profile chain_of_times(const std::vector<std::int64_t>& forward_ns);

// Devices of these types in one node, all pairs joined by `link`.
Cluster cluster_of(const std::vector<DeviceType>& devices, const Link& link = {});

// A problem that keeps its own table.
struct Instance {
  CostTable table;
  SplitProblem problem;
  [[nodiscard]] const SplitProblem& asked();  // with the table's present address
};

// `stages` equal, unlimited devices with free links.
Instance instance_of(const Profile& profile, std::int64_t stages, std::int64_t micro_batch_count = 1,
                     const std::vector<bool>& recomputed = {});

// Small numbers, so that ties are common; skips, unequal devices and links, and memory limits near what the
// stages need.
Instance random_instance(Random& random);
Instance random_instance(Random& random, std::int64_t layers, std::int64_t stages);
// The same with some layers, or all, recomputed; half of them say what their input takes.
Instance random_recomputing_instance(Random& random);
Instance random_recomputing_instance(Random& random, std::int64_t layers, std::int64_t stages);
Profile random_profile(Random& random, std::int64_t layers);

}  // namespace pipeplan::test
