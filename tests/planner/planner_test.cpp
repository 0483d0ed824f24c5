#include "planner/planner.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "planner/brute_force.hpp"
#include "planner/even_split.hpp"
#include "tests/planner/instances.hpp"

using namespace pipeplan;
using namespace pipeplan::test;
using Sizes = std::vector<std::int64_t>;

namespace {

PlanAnswer answered(const Profile& profile, const Cluster& cluster, const PlanOptions& options) {
  auto answer = make_plan(profile, cluster, options);
  REQUIRE(answer);
  return *answer;
}

std::string refusal(const Profile& profile, const Cluster& cluster, const PlanOptions& options,
                    ErrorCode code = ErrorCode::bad_usage) {
  const auto answer = make_plan(profile, cluster, options);
  if (answer) return "accepted";
  CHECK(answer.error().code == code);
  return answer.error().message;
}

bool warns(const PlanAnswer& answer, WarningCode code) {
  for (const Warning& warning : answer.warnings)
    if (warning.code == code) return true;
  return false;
}

std::vector<DeviceType> equal_devices(std::size_t count, std::optional<Bytes> memory = {}) {
  DeviceType device;
  device.memory = memory;
  return std::vector<DeviceType>(count, device);
}

PlanOptions stages(std::int64_t count) {
  PlanOptions options;
  options.fewest_stages = options.most_stages = count;
  options.micro_batch_count = 8;
  return options;
}

PlanOptions stages(std::int64_t count, Algorithm algorithm) {
  PlanOptions options = stages(count);
  options.algorithm = algorithm;
  return options;
}

}  // namespace

TEST_CASE("make_plan: every field of a small plan") {
  const Profile profile = chain_profile({{.forward = 4, .parameter = 3, .activation = 2, .output = 5},
                                         {.forward = 3, .activation = 2, .output = 6},
                                         {.forward = 6}});
  PlanOptions options;
  options.micro_batch_count = 4;
  options.memory_limit = Bytes{1000};
  const PlanAnswer answer = answered(profile, cluster_of(equal_devices(2)), options);
  REQUIRE(answer.outcome == PlanOutcome::planned);
  const Plan& plan = answer.plan;
  CHECK(plan.model == "chain");
  CHECK(plan.profile_digest == profile_digest(profile));
  CHECK(plan.cluster.type(DeviceId{1}).memory == Bytes{1000});
  CHECK(plan.micro_batch_size == 1);
  CHECK(plan.micro_batch_count == 4);
  CHECK(plan.layer_names.values() == std::vector<std::string>{"l0", "l1", "l2"});
  REQUIRE(plan.stage_count() == 2);
  CHECK(plan.stages[StageId{0}] == StagePlan{LayerId{0}, LayerId{1}, RankId{0}, {DeviceId{0}}});
  CHECK(plan.stages[StageId{1}] == StagePlan{LayerId{2}, LayerId{2}, RankId{1}, {DeviceId{1}}});
  CHECK(plan.objective ==
        Objective{"slowest-stage", Nanoseconds{4 + 3}, Nanoseconds{4 + 3}, Nanoseconds{(4 + 3 + 6 + 1) / 2}});
  CHECK(plan.objective.optimal());
  // Weights and gradients, two micro-batches of activations, two buffers for the gradient of the 6-byte
  // tensor.
  CHECK(plan.prediction.peak_memory == std::vector<Bytes>{Bytes{2 * 3 + 2 * (2 + 2) + 2 * 6}, Bytes{2 * 6}});
  CHECK(plan.prediction.transfer == std::vector<Bytes>{Bytes{6}});
  CHECK_FALSE(plan.prediction.iteration);
  CHECK(plan.algorithm == "chain-dp");
  CHECK(stage_sizes(plan) == Sizes{2, 1});
  CHECK(stage_bounds(plan) == Sizes{0, 2, 3});
}

TEST_CASE("make_plan: without a stage count there are as many as devices or layers allow") {
  const Cluster three = cluster_of(equal_devices(3));
  CHECK(answered(chain_of_times({1, 1, 1, 1, 1}), three, {}).plan.stage_count() == 3);
  CHECK(answered(chain_of_times({1, 1}), three, {}).plan.stage_count() == 2);
}

TEST_CASE("make_plan: without a micro-batch count there are four per stage") {
  const PlanAnswer answer = answered(chain_of_times({1, 1, 1}), cluster_of(equal_devices(3)), {});
  CHECK(answer.plan.micro_batch_count == 4 * 3);
}

TEST_CASE("make_plan: of a range the lowest slowest stage wins, at a tie the fewer stages") {
  PlanOptions options;
  options.fewest_stages = 1;
  options.most_stages = 4;
  const Cluster cluster = cluster_of(equal_devices(4));
  CHECK(answered(chain_of_times({5, 5, 5, 5}), cluster, options).plan.stage_count() == 4);
  CHECK(answered(chain_of_times({9, 2, 3, 4}), cluster, options).plan.stage_count() == 2);
  options.fewest_stages = 3;
  CHECK(answered(chain_of_times({9, 2, 3, 4}), cluster, options).plan.stage_count() == 3);
}

TEST_CASE("make_plan: more stages than layers or devices are refused with both numbers") {
  const Profile profile = chain_of_times({1, 1, 1});
  CHECK(refusal(profile, cluster_of(equal_devices(8)), stages(4)) ==
        "4 stages asked for, but 'chain' has 3 layers");
  CHECK(refusal(profile, cluster_of(equal_devices(2)), stages(3)) ==
        "3 stages asked for, but cluster 'test' has 2 devices");
  CHECK(refusal(profile, cluster_of(equal_devices(2)), stages(0)) == "0 stages asked for, wanted at least 1");
  PlanOptions crossed = stages(3);
  crossed.most_stages = 2;
  CHECK(refusal(profile, cluster_of(equal_devices(3)), crossed) ==
        "fewest stages 3 are more than most stages 2");
  PlanOptions weird = stages(2);
  weird.state.total_factor = 65.0;
  CHECK(refusal(profile, cluster_of(equal_devices(3)), weird) ==
        "state bytes per parameter byte are 65, wanted a number from 0 to 64");
}

TEST_CASE("make_plan: even splits give the longer stages first and claim no optimum") {
  CHECK(even_bounds(11, 4) == Sizes{0, 3, 6, 9, 11});
  const Profile profile = chain_of_times({9, 1, 1, 1, 1});
  const Plan plan = answered(profile, cluster_of(equal_devices(2)), stages(2, Algorithm::even_split)).plan;
  CHECK(stage_sizes(plan) == Sizes{3, 2});
  CHECK(plan.algorithm == "even");
  CHECK(plan.objective.value == Nanoseconds{9 + 1 + 1});
  CHECK(plan.objective.lower_bound == Nanoseconds{9});
  CHECK_FALSE(plan.objective.optimal());
  CHECK(plan.objective.gap_fraction() == doctest::Approx(2.0 / 9));
}

TEST_CASE("make_plan: brute force agrees with chain_dp and refuses what would take too long") {
  const Profile profile = chain_of_times({4, 2, 7, 1, 1, 3});
  const Cluster cluster = cluster_of(equal_devices(30));
  Plan exact = answered(profile, cluster, stages(3)).plan;
  const Plan forced = answered(profile, cluster, stages(3, Algorithm::brute_force)).plan;
  CHECK(forced.algorithm == "brute-force");
  exact.algorithm = forced.algorithm;
  CHECK(forced == exact);
  CHECK(split_count(5, 3) == 4 * 3 / 2);
  CHECK(split_count(7, 7) == 1);
  CHECK(split_count(4096, 64) == most_counted_splits);
  const std::string message =
      refusal(chain_of_times(std::vector<std::int64_t>(31, 1)), cluster, stages(15, Algorithm::brute_force));
  CHECK(message ==
        "brute force would try 145422675 splits of 31 layers into 15 stages, wanted at most 50000000");
}

TEST_CASE("make_plan: where nothing fits the answer names the tightest stage and the memory that would do") {
  // Two stages of one activation set each: {7 | 1} or {7 + 2 | ...}; the least is 7 in stage 0, held twice.
  const Profile profile = chain_profile({{.activation = 7}, {.activation = 2}, {.activation = 1}});
  const PlanAnswer answer = answered(profile, cluster_of(equal_devices(2, Bytes{10})), stages(2));
  REQUIRE(answer.outcome == PlanOutcome::infeasible);
  const Infeasible& why = answer.infeasible;
  CHECK(why.stage_count == 2);
  CHECK(why.tightest_stage == StageId{0});
  CHECK(why.first == LayerId{0});
  CHECK(why.last == LayerId{0});
  CHECK(why.needed[MemoryItem::activations] == Bytes{2 * 7});
  CHECK(why.needed.total() == Bytes{2 * 7});
  CHECK(why.limit == Bytes{10});
  CHECK(why.smallest_memory == Bytes{2 * 7});
  PlanOptions enough = stages(2);
  enough.memory_limit = why.smallest_memory;
  CHECK(answered(profile, cluster_of(equal_devices(2, Bytes{10})), enough).outcome == PlanOutcome::planned);
  enough.memory_limit = why.smallest_memory - Bytes{1};
  CHECK(answered(profile, cluster_of(equal_devices(2, Bytes{10})), enough).outcome ==
        PlanOutcome::infeasible);
}

TEST_CASE("make_plan: the tightest stage is the one that needs the most of its own device") {
  const Profile profile = chain_profile({{.activation = 4}, {.activation = 6}});
  std::vector<DeviceType> devices = equal_devices(2, Bytes{4});
  devices[0].memory = Bytes{2};  // 8 of 2 against 6 of 4
  CHECK(answered(profile, cluster_of(devices), stages(2)).infeasible.tightest_stage == StageId{0});
  devices[0].memory.reset();
  CHECK(answered(profile, cluster_of(devices), stages(2)).infeasible.tightest_stage == StageId{1});
}

TEST_CASE("make_plan: an even split that does not fit says what it would need itself") {
  const Profile profile = chain_profile({{.activation = 5}, {.activation = 5}, {.activation = 1}});
  const Cluster cluster = cluster_of(equal_devices(2, Bytes{12}));
  CHECK(answered(profile, cluster, stages(2)).outcome == PlanOutcome::planned);
  const PlanAnswer even = answered(profile, cluster, stages(2, Algorithm::even_split));
  REQUIRE(even.outcome == PlanOutcome::infeasible);
  CHECK(even.infeasible.smallest_memory == Bytes{2 * (5 + 5)});
}

TEST_CASE("make_plan: of a range in which nothing fits the count that needs the least is explained") {
  const Profile profile =
      chain_profile({{.parameter = 8}, {.parameter = 8}, {.parameter = 8}, {.parameter = 8}});
  PlanOptions options = stages(1);
  options.most_stages = 4;
  const PlanAnswer answer = answered(profile, cluster_of(equal_devices(4, Bytes{3})), options);
  REQUIRE(answer.outcome == PlanOutcome::infeasible);
  CHECK(answer.infeasible.stage_count == 4);
  CHECK(answer.infeasible.smallest_memory == Bytes{8 + 8});
}

TEST_CASE("make_plan: fewer micro-batches than stages raise a warning") {
  const Profile profile = chain_of_times({1, 1, 1});
  PlanOptions options = stages(3);
  options.micro_batch_count = 2;
  CHECK(warns(answered(profile, cluster_of(equal_devices(3)), options), WarningCode::few_micro_batches));
  options.micro_batch_count = 3;
  CHECK_FALSE(
      warns(answered(profile, cluster_of(equal_devices(3)), options), WarningCode::few_micro_batches));
}

TEST_CASE("make_plan: one layer that sets the slowest stage alone raises a warning") {
  const Cluster cluster = cluster_of(equal_devices(2));
  CHECK(warns(answered(chain_of_times({1, 1, 9}), cluster, stages(2)), WarningCode::indivisible_layer));
  CHECK_FALSE(warns(answered(chain_of_times({5, 5}), cluster, stages(2)), WarningCode::indivisible_layer));
  CHECK_FALSE(
      warns(answered(chain_of_times({1, 9, 9, 1}), cluster, stages(2)), WarningCode::indivisible_layer));
  CHECK_FALSE(warns(answered(chain_of_times({9}), cluster, stages(1)), WarningCode::indivisible_layer));
}

TEST_CASE("make_plan: a branching model raises a warning where it is cut") {
  Profile profile = chain_of_times({1, 1, 1});
  profile.single_order = false;
  CHECK(warns(answered(profile, cluster_of(equal_devices(2)), stages(2)), WarningCode::branching_model));
  CHECK_FALSE(
      warns(answered(profile, cluster_of(equal_devices(2)), stages(1)), WarningCode::branching_model));
  profile.single_order = true;
  CHECK_FALSE(
      warns(answered(profile, cluster_of(equal_devices(2)), stages(2)), WarningCode::branching_model));
}

TEST_CASE("make_plan: a micro-batch below 4 raises a warning only where larger ones are profiled") {
  Profile profile = chain_of_times({1, 1});
  CHECK_FALSE(
      warns(answered(profile, cluster_of(equal_devices(2)), stages(2)), WarningCode::small_micro_batch));
  for (const LayerId layer : ids<LayerId>(2)) {
    LayerCost larger = profile.layers[layer].costs.front();
    larger.micro_batch_size = 8;
    profile.layers[layer].costs.push_back(larger);
  }
  CHECK(warns(answered(profile, cluster_of(equal_devices(2)), stages(2)), WarningCode::small_micro_batch));
  PlanOptions larger = stages(2);
  larger.micro_batch_size = 8;
  CHECK_FALSE(warns(answered(profile, cluster_of(equal_devices(2)), larger), WarningCode::small_micro_batch));
}

TEST_CASE("make_plan: a huge layer count is planned exactly") {
  PlanOptions options = stages(64);
  options.micro_batch_count = 512;
  const Plan plan =
      answered(chain_of_times(std::vector<std::int64_t>(4096, 3000)), cluster_of(equal_devices(64)), options)
          .plan;
  CHECK(plan.objective.value == Nanoseconds{4096 / 64 * 3000});
  CHECK(stage_sizes(plan) == Sizes(64, 4096 / 64));
}

TEST_CASE(
    "make_plan: layers that must share a stage are refused by name, alone in their group they are not") {
  Profile profile = chain_profile({{.forward = 4}, {.forward = 3}, {.forward = 6}});
  profile.layers[LayerId{0}].colocation = "table";
  CHECK(answered(profile, cluster_of(equal_devices(2)), stages(2)).outcome == PlanOutcome::planned);
  profile.layers[LayerId{2}].colocation = "table";
  CHECK(refusal(profile, cluster_of(equal_devices(2)), stages(2), ErrorCode::bad_input) ==
        "layers 'l0' and 'l2' must share a stage (colocation 'table'), which this version cannot plan");
}

TEST_CASE("make_plan: tied parameters on two stages are warned of, on one stage they are not") {
  Profile profile = chain_profile({{.forward = 4}, {.forward = 3}, {.forward = 6}});
  profile.layers[LayerId{0}].tied = profile.layers[LayerId{2}].tied = "embedding";
  CHECK(warns(answered(profile, cluster_of(equal_devices(2)), stages(2)), WarningCode::tied_parameters));
  CHECK(!warns(answered(profile, cluster_of(equal_devices(1)), stages(1)), WarningCode::tied_parameters));
}

TEST_CASE("make_plan: of several copies of the pipeline each takes its row of devices and its share") {
  const Profile profile = chain_of_times({4, 2, 3, 1});
  PlanOptions options;
  options.fewest_stages = options.most_stages = 2;
  options.data_parallel = 3;
  options.global_batch = 3 * 8;
  const Plan plan = answered(profile, cluster_of(equal_devices(6)), options).plan;
  CHECK(plan.data_parallel == 3);
  CHECK(plan.micro_batch_count == 8);
  CHECK(plan.global_batch() == 3 * 8);
  CHECK(plan.stages[StageId{0}].devices == std::vector<DeviceId>{DeviceId{0}, DeviceId{2}, DeviceId{4}});
  CHECK(plan.stages[StageId{1}].devices == std::vector<DeviceId>{DeviceId{1}, DeviceId{3}, DeviceId{5}});
  CHECK(refusal(profile, cluster_of(equal_devices(5)), options) ==
        "2 stages in 3 copies asked for, but cluster 'test' has 5 devices");
  options.data_parallel = 0;
  CHECK(refusal(profile, cluster_of(equal_devices(6)), options) == "0 copies asked for, wanted at least 1");
}

TEST_CASE("make_plan: without a stage count the copies share the devices") {
  PlanOptions options;
  options.data_parallel = 2;
  const Profile profile = chain_of_times({1, 1, 1, 1, 1});
  CHECK(answered(profile, cluster_of(equal_devices(7)), options).plan.stage_count() == 7 / 2);
}

TEST_CASE("make_plan: the slowest device of a stage in any copy sets its time") {
  std::vector<DeviceType> devices = equal_devices(4);
  devices[2].speed_factor = 0.5;  // the second copy of stage 0
  PlanOptions options = stages(2);
  options.data_parallel = 2;
  const Plan plan = answered(chain_of_times({4, 2, 2, 4}), cluster_of(devices), options).plan;
  CHECK(stage_sizes(plan) == Sizes{1, 3});
  CHECK(plan.objective.value == Nanoseconds{4 * 2});
}

TEST_CASE("make_plan: recomputation of all layers leaves out those that cannot") {
  Profile profile = chain_profile({{.forward = 4, .activation = 5, .output = 1},
                                   {.forward = 2, .activation = 7, .output = 1},
                                   {.forward = 3, .activation = 2}});
  profile.layers[LayerId{2}].recomputable = false;
  PlanOptions options = stages(2);
  options.recompute = Recomputation::all;
  options.recompute_mode = RecomputeMode::early;
  const Plan plan = answered(profile, cluster_of(equal_devices(2)), options).plan;
  CHECK(plan.recompute_mode == RecomputeMode::early);
  CHECK(stage_sizes(plan) == Sizes{1, 2});
  CHECK(plan.stages[StageId{0}].recompute == std::vector<LayerId>{LayerId{0}});
  CHECK(plan.stages[StageId{1}].recompute == std::vector<LayerId>{LayerId{1}});
  CHECK(plan.objective.value == Nanoseconds{2 * 4});  // against 2 * 2 + 3
  // Two micro-batches keep nothing of layer 0, which has no input; two buffers for its gradient.
  CHECK(plan.prediction.peak_memory == std::vector<Bytes>{Bytes{5 + 2 * 1}, Bytes{7 + 1 * (1 + 2) + 2 * 1}});
}

TEST_CASE("make_plan: where memory is short recomputation makes a plan that there is none without") {
  const Profile profile = chain_profile(
      {{.forward = 4, .activation = 50, .output = 1}, {.forward = 2, .activation = 50, .output = 1}});
  PlanOptions options = stages(2);
  options.memory_limit = Bytes{60};
  CHECK(answered(profile, cluster_of(equal_devices(2)), options).outcome == PlanOutcome::infeasible);
  options.recompute = Recomputation::all;
  CHECK(answered(profile, cluster_of(equal_devices(2)), options).outcome == PlanOutcome::planned);
}

TEST_CASE("make_plan: what it predicts of copies and recomputation is what the costs of the plan say") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    INFO("seed ", seed);
    Random random(seed);
    Profile profile = random_profile(random, random.between(3, 8));
    for (ProfiledLayer& layer : profile.layers) layer.recomputable = random.coin();
    PlanOptions options = stages(random.between(1, 3));
    options.data_parallel = random.between(1, 3);
    options.recompute = Recomputation::all;
    const Cluster cluster = cluster_of(equal_devices(9));
    for (const Algorithm algorithm : {Algorithm::chain_dp, Algorithm::even_split, Algorithm::brute_force}) {
      options.algorithm = algorithm;
      const Plan plan = answered(profile, cluster, options).plan;
      CHECK(check_plan_against(plan, profile));
      CHECK(*plan_from_json(to_json(plan), "plan.json") == plan);
    }
  }
}
