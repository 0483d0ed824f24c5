// What replicas, copies of the pipeline and recomputation do to the costs of a plan.

#include <doctest/doctest.h>

#include "planner/memory.hpp"
#include "planner/planner.hpp"
#include "tests/planner/instances.hpp"

using namespace pipeplan;
using namespace pipeplan::test;

namespace {

using enum MemoryItem;

// Costs that grow in proportion with the micro-batch size, profiled at 1 and 4.
Profile linear_profile(const std::vector<LayerNumbers>& per_sample) {
  Profile profile = chain_profile(per_sample);
  for (ProfiledLayer& layer : profile.layers) {
    LayerCost four = layer.costs.front();
    four.micro_batch_size = 4;
    for (Nanoseconds* time : {&four.forward, &four.backward_input, &four.backward_weight}) *time *= 4;
    for (Bytes* bytes : {&four.activation, &four.workspace, &four.output}) *bytes = 4 * *bytes;
    layer.costs.push_back(four);
  }
  return profile;
}

Profile sample_profile() {
  return linear_profile({{6, 8, 30, 5, 7, 2}, {4, 2, 10, 3, 9, 1}, {10, 6, 50, 2, 4, 3}});
}

// Layers 0 and 1 on the first stage, layer 2 on the second, micro-batches of 4 samples.
Plan two_stages(const Profile& profile, std::int64_t replicas, std::int64_t more_replicas,
                std::int64_t copies = 1, const Link& link = {}) {
  Plan plan;
  plan.cluster = cluster_of(std::vector<DeviceType>(16), link);
  plan.micro_batch_size = 4;
  plan.micro_batch_count = 8;
  plan.data_parallel = copies;
  for (const ProfiledLayer& layer : profile.layers) plan.layer_names.push_back(layer.name);
  StagePlan front{LayerId{0}, LayerId{1}, RankId{0}, {}, replicas, {}};
  StagePlan back{LayerId{2}, LayerId{2}, RankId{1}, {}, more_replicas, {}};
  std::int32_t next = 0;
  for (std::int64_t i = 0; i < replicas * copies; ++i) front.devices.push_back(DeviceId{next++});
  for (std::int64_t i = 0; i < more_replicas * copies; ++i) back.devices.push_back(DeviceId{next++});
  plan.stages.push_back(front);
  plan.stages.push_back(back);
  return plan;
}

PipelineCosts costs_of(const Plan& plan, const Profile& profile) {
  auto costs = pipeline_costs(plan, profile, plan.cluster);
  REQUIRE(costs);
  return *costs;
}

std::string refusal(const Plan& plan, const Profile& profile) {
  const auto costs = pipeline_costs(plan, profile, plan.cluster);
  return costs ? "accepted" : costs.error().message;
}

Bytes item(const PipelineCosts& costs, std::int32_t stage, MemoryItem which) {
  return costs.memory[StageId{stage}].constant[which];
}

}  // namespace

TEST_CASE("pipeline_costs: replicas share out the samples, so that linear times and sizes fall to a share") {
  const Profile profile = sample_profile();
  const PipelineCosts one = costs_of(two_stages(profile, 1, 1), profile);
  CHECK(one.times[StageId{0}].forward == Nanoseconds{4 * (6 + 4)});
  for (const std::int64_t r : {2, 4}) {
    const PipelineCosts shared = costs_of(two_stages(profile, r, 1), profile);
    const StageId front{0};
    CHECK(shared.times[front].forward == one.times[front].forward / r);
    CHECK(shared.times[front].backward() == one.times[front].backward() / r);
    CHECK(shared.memory[front].activation_per_micro_batch * r ==
          one.memory[front].activation_per_micro_batch);
    CHECK(item(shared, 0, workspace) * r == item(one, 0, workspace));
    CHECK(item(shared, 0, weights) == item(one, 0, weights));
    CHECK(shared.times[StageId{1}] == one.times[StageId{1}]);
  }
}

TEST_CASE("pipeline_costs: a boundary is as busy as the side with fewer replicas, buffers hold one shard") {
  const Profile profile = sample_profile();
  const auto boundary = [&](std::int64_t r, std::int64_t q) {
    return costs_of(two_stages(profile, r, q), profile).boundaries.front();
  };
  const std::int64_t whole = 4 * 9;  // the output of layer 1
  CHECK(boundary(1, 1).bytes == Bytes{whole});
  CHECK(boundary(4, 1).bytes == Bytes{whole});
  CHECK(boundary(1, 4).bytes == Bytes{whole});
  CHECK(boundary(2, 4).bytes == Bytes{whole / 2});
  CHECK(boundary(4, 4).bytes == Bytes{whole / 4});
  CHECK(boundary(2, 4).activation_buffer == Bytes{whole / 4});
  CHECK(boundary(2, 4).gradient_buffer == Bytes{whole / 2});
  // 1f1b: two buffers for each direction of the only boundary.
  const PipelineCosts costs = costs_of(two_stages(profile, 2, 4), profile);
  CHECK(item(costs, 0, communication) == Bytes{2 * whole / 2});
  CHECK(item(costs, 1, communication) == Bytes{2 * whole / 4});
}

TEST_CASE("pipeline_costs: gradients are summed over the ring of all replicas and copies, unless free") {
  const Profile profile = sample_profile();
  const Link link{BytesPerSecond{1'000'000'000}, Nanoseconds{5}};
  const auto all_reduce = [&](std::int64_t r, std::int64_t copies, TransferMode mode) {
    Plan plan = two_stages(profile, r, 1, copies, link);
    plan.transfers = mode;
    return costs_of(plan, profile).times[StageId{0}].all_reduce.count();
  };
  CHECK(all_reduce(1, 1, TransferMode::overlapped) == 0);
  CHECK(all_reduce(2, 1, TransferMode::overlapped) == 2 * 1 * (30 + 10) / 2 + 2 * 1 * 5);
  CHECK(all_reduce(2, 2, TransferMode::uncontended) == 2 * 3 * (30 + 10) / 4 + 2 * 3 * 5);
  CHECK(all_reduce(2, 2, TransferMode::ignored) == 0);
}

TEST_CASE(
    "pipeline_costs: a copy of the pipeline costs what the pipeline alone does, but for the all-reduce") {
  const Profile profile = sample_profile();
  const PipelineCosts alone = costs_of(two_stages(profile, 2, 1), profile);
  PipelineCosts copy = costs_of(two_stages(profile, 2, 1, 4), profile);
  for (StageTimes& times : copy.times) times.all_reduce = Nanoseconds{0};
  CHECK(copy == alone);
}

TEST_CASE(
    "pipeline_costs: of a run of recomputed layers a micro-batch keeps the input, the rest exists once") {
  Profile profile = sample_profile();
  Plan plan = two_stages(profile, 1, 1);
  plan.stages[StageId{0}].recompute = {LayerId{0}, LayerId{1}};
  const PipelineCosts without_input = costs_of(plan, profile);
  const StageMemory& memory = without_input.memory[StageId{0}];
  CHECK(memory.activation_per_micro_batch == Bytes{0});  // nothing is sent to layer 0
  CHECK(memory.constant[activations] == Bytes{4 * (5 + 3)});
  CHECK(without_input.times[StageId{0}].recompute == Nanoseconds{4 * (6 + 4)});
  CHECK(without_input.times[StageId{0}].per_micro_batch() == Nanoseconds{4 * (6 + 8 + 4 + 2) + 4 * (6 + 4)});
  profile.layers[LayerId{0}].costs.back().input = Bytes{77};
  CHECK(costs_of(plan, profile).memory[StageId{0}].activation_per_micro_batch == Bytes{77});
}

TEST_CASE("pipeline_costs: layers that keep their activations part the runs of recomputed ones") {
  const Profile profile = sample_profile();
  Plan plan = two_stages(profile, 1, 1);
  plan.stages[StageId{0}].recompute = {LayerId{1}};
  const StageMemory front = costs_of(plan, profile).memory[StageId{0}];
  CHECK(front.activation_per_micro_batch == Bytes{4 * (5 + 7)});  // that of layer 0, and the input of 1
  CHECK(front.constant[activations] == Bytes{4 * 3});
  // A stage begins a run of its own, whatever the stage before does.
  plan.stages[StageId{1}].recompute = {LayerId{2}};
  CHECK(costs_of(plan, profile).memory[StageId{1}].activation_per_micro_batch == Bytes{4 * 9});
}

TEST_CASE("pipeline_costs: recomputation raises no peak where inputs are a small enough part") {
  // With h micro-batches in flight, activations A against one A and h inputs I: no more if h I <= (h - 1) A.
  int judged = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    INFO("seed ", seed);
    Random random(seed);
    const std::int64_t layers = random.between(1, 8), held = random.between(2, 6);
    Profile profile = random_profile(random, layers);
    for (ProfiledLayer& layer : profile.layers) layer.costs.front().input = Bytes{random.between(0, 4)};
    const auto memory = [&](const std::vector<bool>& recomputed) {
      const auto table = make_cost_table(profile, 1, held, Extrapolation::refused, recomputed);
      REQUIRE(table);
      return window_memory(*table, 0, layers, {}, {});
    };
    std::int64_t kept = 0;
    for (const ProfiledLayer& layer : profile.layers) kept += layer.costs.front().activation.value;
    const std::int64_t input = profile.layers.front().costs.front().input->value;
    if (held * input > (held - 1) * kept) continue;
    ++judged;
    const std::vector<bool> all(static_cast<std::size_t>(layers), true);
    CHECK(peak_memory(memory(all), held) <= peak_memory(memory({}), held));
  }
  CHECK(judged > 100);
}

TEST_CASE("pipeline_costs: what a backward leaves for the weights is the sum over the layers") {
  Profile profile = sample_profile();
  profile.layers[LayerId{0}].costs.back().deferred = Bytes{11};
  profile.layers[LayerId{1}].costs.back().deferred = Bytes{6};
  const PipelineCosts costs = costs_of(two_stages(profile, 1, 1), profile);
  CHECK(costs.memory[StageId{0}].deferred_per_micro_batch == Bytes{11 + 6});
  CHECK(costs.memory[StageId{1}].deferred_per_micro_batch == Bytes{0});
}

TEST_CASE("pipeline_costs: several stages of a rank share its devices and send nothing, with a buffer each") {
  const Profile profile = sample_profile();
  Plan plan = two_stages(profile, 2, 2);
  plan.stages[StageId{1}].rank = RankId{0};
  plan.stages[StageId{1}].devices = plan.stages[StageId{0}].devices;
  const PipelineCosts costs = costs_of(plan, profile);
  CHECK(costs.boundaries.front().link == Link{});
  CHECK(costs.boundaries.front().receive_buffers == 1);
  CHECK(item(costs, 0, communication) == Bytes{4 / 2 * 9});
  CHECK(item(costs, 1, communication) == Bytes{4 / 2 * 9});
}

TEST_CASE("pipeline_costs: what cannot be recomputed, shared out or placed is refused by name") {
  Profile profile = sample_profile();
  profile.layers[LayerId{1}].recomputable = false;
  Plan plan = two_stages(profile, 1, 1);
  plan.stages[StageId{0}].recompute = {LayerId{1}};
  CHECK(refusal(plan, profile) ==
        "stage 0 recomputes layer 'l1', which the profile says cannot be recomputed");
  plan = two_stages(profile, 3, 1);
  CHECK(refusal(plan, profile) ==
        "stage 0 has 3 replicas, wanted a divisor of the micro-batch size, which is 4");
  plan = two_stages(profile, 2, 1);
  plan.stages[StageId{0}].devices.pop_back();
  CHECK(refusal(plan, profile) == "stage 0 has 1 devices, wanted 2 replicas times 1 copies");
  plan = two_stages(profile, 2, 1, 2);
  plan.stages[StageId{0}].devices.back() = DeviceId{16};
  CHECK(refusal(plan, profile) == "stage 0 runs on device 16, but cluster 'test' has 16 devices");
}

TEST_CASE("pipeline_costs: a share smaller than any profiled micro-batch is refused") {
  Profile profile = chain_of_times({1, 1, 1});
  for (ProfiledLayer& layer : profile.layers) layer.costs.front().micro_batch_size = 4;
  CHECK(refusal(two_stages(profile, 1, 1), profile) == "accepted");
  CHECK(refusal(two_stages(profile, 2, 1), profile).find("no cost at micro-batch size 2") !=
        std::string::npos);
}
