#include "planner/cost.hpp"

#include <doctest/doctest.h>

#include "planner/planner.hpp"
#include "tests/planner/instances.hpp"

using namespace pipeplan;
using namespace pipeplan::test;

namespace {

Edge edge(std::int32_t from, std::int32_t to, std::optional<Bytes> bytes = {}) {
  return {LayerId{from}, LayerId{to}, bytes};
}

CostTable table_of(const Profile& profile, std::int64_t micro_batch_size = 1) {
  auto table = make_cost_table(profile, micro_batch_size, 1, Extrapolation::allowed);
  REQUIRE(table);
  return *table;
}

Plan planned(const Profile& profile, const Cluster& cluster, const PlanOptions& options) {
  auto answer = make_plan(profile, cluster, options);
  REQUIRE(answer);
  REQUIRE(answer->outcome == PlanOutcome::planned);
  return answer->plan;
}

}  // namespace

TEST_CASE("Ratio: products and quotients are exact to nine decimals and rounded up") {
  CHECK(Ratio(0.7).divide_up(7) == 10);
  CHECK(Ratio(0.7).divide_up(21) == 30);
  CHECK(Ratio(1.1).multiply_up(10) == 11);
  CHECK(Ratio(1.1).multiply_up(11) == 13);  // 12.1
  CHECK(Ratio(3).divide_up(10) == 4);
  CHECK(Ratio(1).divide_up(std::int64_t{1} << 62) == std::int64_t{1} << 62);
  CHECK(Ratio(0).multiply_up(5) == 0);
}

TEST_CASE("Ratio: numbers beyond 64 bits on the way are exact, and beyond the limit are cut") {
  constexpr std::int64_t large = std::int64_t{1} << 55;
  CHECK(Ratio(1.5).multiply_up(large) == large + large / 2);
  CHECK(Ratio(0.5).divide_up(large) == 2 * large);
  CHECK(Ratio(1e-9).divide_up(large) == largest_ratio_result);
}

TEST_CASE("CostTable: the parts of a stage never take less than the whole, at any speed") {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    INFO("seed ", seed);
    Random random(seed);
    const CostTable table = table_of(random_profile(random, 8));
    const Ratio speed(static_cast<double>(random.between(1, 30)) / 10);
    const std::int64_t cut = random.between(1, 7);
    CHECK(table.stage_time(0, cut, speed) + table.stage_time(cut, 8, speed) >= table.stage_time(0, 8, speed));
    CHECK(table.stage_time(0, cut, speed) <= table.stage_time(0, 8, speed));
  }
}

TEST_CASE("CostTable: each of a stage times is divided by the speed and rounded up") {
  Profile profile = chain_profile({{.forward = 10, .backward = 7}, {.forward = 1, .backward = 4}});
  for (const LayerId layer : ids<LayerId>(2)) profile.layers[layer].costs[0].optimizer = Nanoseconds{3};
  const CostTable table = table_of(profile);
  const StageTimes times = table.stage_times(0, 2, 2.0);
  CHECK(times.forward == Nanoseconds{6});          // (10 + 1) / 2
  CHECK(times.backward_input == Nanoseconds{3});   // (3 + 2) / 2
  CHECK(times.backward_weight == Nanoseconds{3});  // (4 + 2) / 2
  CHECK(times.optimizer == Nanoseconds{3});
  CHECK(times.per_micro_batch().count() == table.stage_time(0, 2, Ratio(2)));
  CHECK(table.stage_times(0, 2, 1.0).per_micro_batch().count() == table.total_time());
}

TEST_CASE("cut_bytes: a chain cuts carry the output of the layer before") {
  const CostTable table = table_of(chain_profile({{.output = 5}, {.output = 7}, {.output = 9}}));
  CHECK(table.cut_bytes == std::vector<std::int64_t>{0, 5, 7, 0});
}

TEST_CASE("cut_bytes: a skipped tensor counts once at every cut it crosses") {
  Profile profile = chain_profile({{.output = 1}, {.output = 10}, {.output = 100}, {.output = 1000}, {}});
  profile.edges = {edge(0, 1), edge(0, 3), edge(0, 4), edge(1, 2), edge(2, 3), edge(3, 4)};
  CHECK(table_of(profile).cut_bytes == std::vector<std::int64_t>{0, 1, 1 + 10, 1 + 100, 1 + 1000, 0});
}

TEST_CASE("cut_bytes: of one producer edges the largest that crosses the cut counts") {
  Profile profile = chain_profile({{.output = 8}, {}, {}, {}});
  profile.edges = {edge(0, 1, Bytes{20}), edge(0, 2), edge(0, 3, Bytes{3})};
  CHECK(table_of(profile).cut_bytes == std::vector<std::int64_t>{0, 20, 8, 3, 0});
}

TEST_CASE("cut_bytes: an edge own bytes grow with the micro-batch size from the first profiled") {
  Profile profile = chain_profile({{.output = 8}, {}});
  profile.layers[LayerId{0}].costs[0].micro_batch_size = 2;
  profile.layers[LayerId{1}].costs[0].micro_batch_size = 2;
  profile.edges = {edge(0, 1, Bytes{7})};
  CHECK(table_of(profile, 2).cut_bytes[1] == 7);
  CHECK(table_of(profile, 4).cut_bytes[1] == 7 * 4 / 2);
  CHECK(table_of(profile, 3).cut_bytes[1] == (7 * 3 + 1) / 2);  // rounded up
}

TEST_CASE("make_cost_table: totals that leave the limits are refused with their numbers") {
  constexpr std::int64_t huge = largest_document_integer;
  const auto refusal = [](const Profile& profile, std::int64_t micro_batch_count) {
    const auto table = make_cost_table(profile, 1, micro_batch_count, Extrapolation::refused);
    return table ? std::string("accepted") : table.error().message;
  };
  CHECK(refusal(chain_of_times({huge}), 512) == "accepted");
  CHECK(refusal(chain_of_times({huge}), 513).find("times 513 micro-batches") != std::string::npos);
  CHECK(refusal(chain_profile({{.parameter = huge}, {.parameter = huge}, {.parameter = huge}}), 1)
            .find("parameters of") == 0);
  CHECK(refusal(chain_profile({{.activation = huge}}), 200).find("activations of") == 0);
  CHECK(refusal(chain_profile({{.output = huge}, {}}), 200).find("tensors over all cuts of") == 0);
  CHECK(refusal(chain_of_times({1}), 0) == "micro-batch size 1 and count 0, wanted at least 1 of each");
  const Profile many = chain_profile(std::vector<LayerNumbers>(5000, {huge, huge, huge, huge, huge, huge}));
  CHECK(refusal(many, 1).find("times 1 micro-batches") != std::string::npos);
}

TEST_CASE("make_cost_table: a size outside the profile is refused as the profile refuses it") {
  const Profile profile = chain_of_times({1});
  const auto table = make_cost_table(profile, 3, 1, Extrapolation::refused);
  const auto cost = cost_at(profile.layers[LayerId{0}], 3, Extrapolation::refused);
  REQUIRE(!table);
  REQUIRE(!cost);
  CHECK(table.error().message == cost.error().message);
}

TEST_CASE("pipeline_costs: on another cluster a plan costs what that cluster makes of it") {
  const Profile profile =
      chain_profile({{.forward = 6, .output = 10}, {.forward = 8, .output = 3}, {.forward = 4}});
  const Plan plan = planned(profile, cluster_of({{}, {}}), {.micro_batch_count = 2});
  CHECK(stage_bounds(plan) == std::vector<std::int64_t>{0, 1, 3});
  DeviceType fast;
  fast.speed_factor = 4;
  const Link link{BytesPerSecond{1'000'000'000}, Nanoseconds{5}};
  const auto costs = pipeline_costs(plan, profile, cluster_of({{}, fast}, link));
  REQUIRE(costs);
  CHECK(costs->times[StageId{0}].forward == Nanoseconds{6});
  CHECK(costs->times[StageId{1}].forward == Nanoseconds{3});  // (8 + 4) / 4
  REQUIRE(costs->boundaries.size() == 1);
  CHECK(costs->boundaries[0] == BoundaryCosts{Bytes{10}, link, 2, Bytes{10}, Bytes{10}});
  CHECK(slowest_stage(*costs) == Nanoseconds{10});  // the link: 10 bytes at a byte per ns
  PipelineCosts without = *costs;
  without.transfers = TransferMode::uncontended;
  CHECK(slowest_stage(without) == Nanoseconds{6});
}

TEST_CASE("pipeline_costs: a cluster without the plan device and a profile of other layers are refused") {
  const Profile profile = chain_of_times({6, 8, 4});
  const Plan plan = planned(profile, cluster_of({{}, {}}), {.micro_batch_count = 1});
  const auto lacking = pipeline_costs(plan, profile, cluster_of({{}}));
  REQUIRE(!lacking);
  CHECK(lacking.error().message == "stage 1 runs on device 1, but cluster 'test' has 1 devices");
  const auto longer = pipeline_costs(plan, chain_of_times({6, 8, 4, 2}), plan.cluster);
  REQUIRE(!longer);
  CHECK(longer.error().message == "no stage has layer 3 of the profile, 'l3'");
  const auto shorter = pipeline_costs(plan, chain_of_times({6, 8}), plan.cluster);
  REQUIRE(!shorter);
  CHECK(shorter.error().message == "layer 2, 'l2', is not in the profile, which has 2 layers");
  Profile renamed = profile;
  renamed.layers[LayerId{1}].name = "other";
  const auto other = pipeline_costs(plan, renamed, plan.cluster);
  REQUIRE(!other);
  CHECK(other.error().message == "layer 1 is 'l1', in the profile it is 'other'");
}

TEST_CASE("pipeline_costs: a device so slow that the times leave the limit is refused") {
  const Profile profile = chain_of_times({std::int64_t{1} << 40, 1});
  const Plan plan = planned(profile, cluster_of({{}, {}}), {.micro_batch_count = 1});
  DeviceType slow;
  slow.speed_factor = 1e-9;
  const auto costs = pipeline_costs(plan, profile, cluster_of({slow, slow}));
  CHECK(costs);  // cut at 2^60, which is within 2^62
  Plan longer = plan;
  longer.micro_batch_count = 8;
  const auto refused = pipeline_costs(longer, profile, cluster_of({slow, slow}));
  REQUIRE(!refused);
  CHECK(refused.error().message.find("8 micro-batches take more than") != std::string::npos);
}
