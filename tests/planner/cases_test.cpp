// Cases from the field that ask for a plan: what people ran into, and the right answer.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "planner/memory.hpp"
#include "planner/planner.hpp"
#include "planner/split.hpp"
#include "tests/planner/case_profile.hpp"
#include "tests/planner/instances.hpp"

using namespace pipeplan;
using namespace pipeplan::test;
using Sizes = std::vector<std::int64_t>;

namespace {

std::vector<DeviceType> equal_devices(std::int64_t count, std::optional<Bytes> memory = {}) {
  DeviceType device;
  device.memory = memory;
  return std::vector<DeviceType>(static_cast<std::size_t>(count), device);
}

Profile profile_of(const Json& input, bool with_outputs = false) {
  auto profile = case_profile(input, with_outputs);
  REQUIRE(profile);
  return *profile;
}

PlanOptions options_of(const Json& input) {
  PlanOptions options;
  options.micro_batch_count = input.value("micro_batches", std::int64_t{8});
  if (input.contains("state_bytes_per_parameter_byte"))
    options.state.total_factor = input["state_bytes_per_parameter_byte"].get<double>();
  return options;
}

PlanAnswer answered(const Profile& profile, const std::vector<DeviceType>& devices,
                    const PlanOptions& options) {
  auto answer = make_plan(profile, cluster_of(devices), options);
  REQUIRE(answer);
  return *answer;
}

Plan planned(const Json& input) {
  PlanAnswer answer =
      answered(profile_of(input), equal_devices(input["stages"].get<std::int64_t>()), options_of(input));
  REQUIRE(answer.outcome == PlanOutcome::planned);
  return answer.plan;
}

std::int64_t bottleneck_us(const Plan& plan) { return plan.objective.value.count() / 1000; }

Sizes sorted_sizes(const Plan& plan) {
  Sizes sizes = stage_sizes(plan);
  std::sort(sizes.begin(), sizes.end());
  return sizes;
}

Sizes memory_of(const Plan& plan) {
  Sizes bytes;
  for (const Bytes peak : plan.prediction.peak_memory) bytes.push_back(peak.value);
  return bytes;
}

bool among(const Json& lists, const Sizes& sizes) {
  return std::any_of(lists.begin(), lists.end(),
                     [&](const Json& list) { return list.get<Sizes>() == sizes; });
}

std::string refusal(const Json& input, const PlanOptions& options) {
  const auto answer =
      make_plan(profile_of(input), cluster_of(equal_devices(input["stages"].get<std::int64_t>())), options);
  return answer ? "accepted" : answer.error().message;
}

}  // namespace

TEST_SUITE_BEGIN("reference");

TEST_CASE("case 01: five layers on four stages leave no stage empty") {
  const Json json = read_case("01");
  const Plan plan = planned(json["input"]);
  CHECK(bottleneck_us(plan) == json["expect"]["bottleneck_us"]);
  CHECK(sorted_sizes(plan) == json["expect"]["stage_sizes_sorted"].get<Sizes>());
}

TEST_CASE("case 03: a big vocabulary at both ends is balanced by cost, not by count") {
  const Json json = read_case("03");
  const Plan plan = planned(json["input"]);
  CHECK(bottleneck_us(plan) == json["expect"]["bottleneck_us"]);
  CHECK(stage_sizes(plan) == json["expect"]["stage_sizes"].get<Sizes>());
}

TEST_CASE("case 04: a heavy head and loss take layers from the last stage") {
  const Json json = read_case("04");
  const Plan plan = planned(json["input"]);
  CHECK(bottleneck_us(plan) == json["expect"]["bottleneck_us"]);
  CHECK(among(json["expect"]["optimal_stage_sizes"], stage_sizes(plan)));
}

TEST_CASE("case 07: thirty layers on four stages are all there") {
  const Json json = read_case("07");
  const Plan plan = planned(json["input"]);
  CHECK(bottleneck_us(plan) == json["expect"]["bottleneck_us"]);
  // The case's sizes 7 7 8 8 are one optimum; the smallest boundaries are another.
  CHECK(stage_sizes(plan) == Sizes{6, 8, 8, 8});
  CHECK(stage_bounds(plan).back() == json["expect"]["sum_of_sizes"]);
}

TEST_CASE("case 14: more micro-batches raise memory until there are as many as stages") {
  const Json json = read_case("14");
  const Json& input = json["input"];
  for (const Json& count : input["micro_batches_to_try"]) {
    PlanOptions options = options_of(input);
    options.micro_batch_count = count.get<std::int64_t>();
    options.algorithm = Algorithm::even_split;
    const Plan plan = answered(profile_of(input), equal_devices(4), options).plan;
    CHECK(stage_sizes(plan) == input["stage_sizes"].get<Sizes>());
    const std::string key = fmt::format("{}", *options.micro_batch_count);
    INFO("micro-batches ", key);
    CHECK(memory_of(plan) == json["expect"]["stage_bytes"][key].get<Sizes>());
    for (std::int64_t rank = 0; rank < 4; ++rank)
      CHECK(in_flight(ScheduleKind::one_f_one_b, 4, *options.micro_batch_count, rank) ==
            json["expect"]["in_flight_per_stage"][key][static_cast<std::size_t>(rank)]);
  }
}

TEST_CASE("case 14: receive buffers are counted apart from what the case rule knows") {
  const Json json = read_case("14");
  PlanOptions options = options_of(json["input"]);
  options.algorithm = Algorithm::even_split;
  const Profile profile = profile_of(json["input"], true);
  const Plan plan = answered(profile, equal_devices(4), options).plan;
  const auto costs = pipeline_costs(plan, profile, plan.cluster);
  REQUIRE(costs);
  const auto output = json["input"]["layers"][0]["output_bytes"].get<std::int64_t>();
  const Sizes buffers{4, 4 + 3, 3 + 2, 2};
  for (const StageId stage : ids<StageId>(4)) {
    const Bytes received = costs->memory[stage].constant[MemoryItem::communication];
    CHECK(received == Bytes{buffers[stage.index()] * output});
    CHECK(plan.prediction.peak_memory[stage.index()] - received ==
          Bytes{json["expect"]["stage_bytes"]["8"][stage.index()].get<std::int64_t>()});
  }
}

TEST_CASE("case 16: memory limits each stage by what it holds in flight") {
  const Json json = read_case("16");
  const Json& input = json["input"];
  const Json& expect = json["expect"];
  const Profile profile = profile_of(input);
  PlanOptions options = options_of(input);
  const Plan free = answered(profile, equal_devices(4), options).plan;
  CHECK(bottleneck_us(free) == expect["unconstrained_bottleneck_us"]);
  CHECK(stage_sizes(free) == expect["unconstrained_sizes"][0].get<Sizes>());
  CHECK(memory_of(free) == expect["unconstrained_stage_bytes"][0].get<Sizes>());
  options.memory_limit = Bytes{input["device_memory_bytes"].get<std::int64_t>()};
  const Plan limited = answered(profile, equal_devices(4), options).plan;
  CHECK(bottleneck_us(limited) == expect["constrained_bottleneck_us"]);
  CHECK(among(expect["constrained_sizes"], stage_sizes(limited)));
  CHECK(among(expect["constrained_stage_bytes"], memory_of(limited)));
}

TEST_CASE("case 16: below the smallest memory the tightest stage is named") {
  const Json json = read_case("16");
  const Profile profile = profile_of(json["input"]);
  PlanOptions options = options_of(json["input"]);
  const Bytes smallest{
      json["expect"]["smallest_device_memory_for_which_any_plan_exists"].get<std::int64_t>()};
  options.memory_limit = smallest;
  CHECK(answered(profile, equal_devices(4), options).outcome == PlanOutcome::planned);
  options.memory_limit = smallest - Bytes{1};
  const PlanAnswer answer = answered(profile, equal_devices(4), options);
  REQUIRE(answer.outcome == PlanOutcome::infeasible);
  CHECK(answer.infeasible.smallest_memory == smallest);
  CHECK(answer.infeasible.needed.total() == smallest);
  CHECK(answer.infeasible.limit == smallest - Bytes{1});
}

TEST_CASE("case 20: fewer micro-batches than stages warn, and hold what the closed form says") {
  const Json json = read_case("20");
  PlanOptions options;
  options.micro_batch_count = 3;
  const PlanAnswer answer = answered(profile_of(json["input"]), equal_devices(8), options);
  CHECK(answer.outcome == PlanOutcome::planned);
  CHECK(std::any_of(answer.warnings.begin(), answer.warnings.end(),
                    [](const Warning& warning) { return warning.code == WarningCode::few_micro_batches; }));
  const Json& expected = json["expect"]["in_flight_per_stage"];
  for (std::int64_t rank = 0; rank < 8; ++rank) {
    CHECK(in_flight(ScheduleKind::one_f_one_b, 8, 1, rank) ==
          expected["m=1"][static_cast<std::size_t>(rank)]);
    CHECK(in_flight(ScheduleKind::one_f_one_b, 8, 3, rank) ==
          expected["m=3 1f1b"][static_cast<std::size_t>(rank)]);
    CHECK(in_flight(ScheduleKind::gpipe, 8, 3, rank) == 3);
  }
}

TEST_CASE("case 21: a batch of 8 in 3 micro-batches is refused with the counts that work") {
  const Json json = read_case("21");
  PlanOptions options;
  options.global_batch = json["input"]["batch_per_replica"].get<std::int64_t>();
  options.micro_batch_count = json["input"]["micro_batches"].get<std::int64_t>();
  options.extrapolation = Extrapolation::allowed;
  CHECK(refusal(json["input"], options).find("counts that divide it: 1, 2, 4, 8") != std::string::npos);
  for (const Json& count : json["expect"]["valid_micro_batch_counts"]) {
    options.micro_batch_count = count.get<std::int64_t>();
    CHECK(refusal(json["input"], options) == "accepted");
  }
}

TEST_CASE("case 24: a global batch that does not divide is refused with the nearest that do") {
  const Json json = read_case("24");
  const Json& input = json["input"];
  PlanOptions options;
  options.global_batch = input["global_batch"].get<std::int64_t>();
  // Eight replicas of micro-batch size 4 cut the batch as one pipeline of size 32 does.
  options.micro_batch_size =
      input["micro_batch_size"].get<std::int64_t>() * json["expect"]["data_parallel"].get<std::int64_t>();
  const auto answer = make_plan(chain_of_times({1, 1, 1, 1}), cluster_of(equal_devices(4)), options);
  REQUIRE(!answer);
  const auto nearest = json["expect"]["nearest_valid"].get<Sizes>();
  CHECK(answer.error().message.find(fmt::format("are: {}, {}", nearest[0], nearest[1])) != std::string::npos);
}

TEST_CASE("case 35: every cut of a U-Net carries the open skips") {
  const Json json = read_case("35");
  const Profile profile = profile_of(json["input"], true);
  const auto table = make_cost_table(profile, 1, 1, Extrapolation::refused);
  REQUIRE(table);
  const Sizes inner(table->cut_bytes.begin() + 1, table->cut_bytes.end() - 1);
  CHECK(inner == json["expect"]["forward_bytes_crossing_each_cut"].get<Sizes>());
  PlanOptions options;
  options.micro_batch_count = 8;
  const Plan plan = answered(profile, equal_devices(2), options).plan;
  CHECK(bottleneck_us(plan) == json["expect"]["best_compute_split_2"]["bottleneck_us"]);
  CHECK(stage_sizes(plan) == Sizes{4, 5});  // the cheaper of the two cuts
}

TEST_CASE("case 38: a graph with a cycle never becomes a profile, and the cycle is named") {
  const Json json = read_case("38");
  const auto profile = case_profile(json["input"], false);
  REQUIRE(!profile);
  CHECK(profile.error().message.find("cycle n1 -> n2 -> n1") != std::string::npos);
}

TEST_CASE("case 40: unequal devices take layers by speed, with memory only as a cap") {
  const Json json = read_case("40");
  std::vector<DeviceType> devices;
  for (const Json& device : json["input"]["devices"]) {
    DeviceType type;
    type.speed_factor = device["speed_gb_per_s"].get<double>();
    type.memory = Bytes{device["memory_bytes"].get<std::int64_t>()};
    devices.push_back(type);
  }
  PlanOptions options;
  options.micro_batch_count = 1;
  options.state.total_factor = 1;
  const Plan plan = answered(profile_of(json["input"]), devices, options).plan;
  CHECK(stage_sizes(plan) == json["expect"]["optimal_sizes"][0].get<Sizes>());
  CHECK(static_cast<double>(plan.objective.value.count()) / 1e6 ==
        doctest::Approx(json["expect"]["bottleneck_ms"].get<double>()).epsilon(1e-5));
}

TEST_CASE("case 51: 4096 layers on 64 stages") {
  const Json json = read_case("51");
  const Json& input = json["input"];
  for (const ScheduleKind schedule : {ScheduleKind::one_f_one_b, ScheduleKind::gpipe}) {
    PlanOptions options = options_of(input);
    options.schedule = schedule;
    const Plan plan = answered(profile_of(input), equal_devices(64), options).plan;
    CHECK(bottleneck_us(plan) == json["expect"]["bottleneck_us"]);
    CHECK(stage_sizes(plan) == json["expect"]["sizes"].get<Sizes>());
  }
}

TEST_CASE("cases 54 and 55: sizes and cumulative bounds of a plan, and the document gives them back") {
  const Json layout = read_case("54"), bounds = read_case("55");
  for (const Json* json : {&layout, &bounds}) {
    const Json& given = (*json)["input"]["plan"];
    const auto sizes = given["stage_sizes"].get<Sizes>();
    const auto names = given["layers"].get<std::vector<std::string>>();
    // Times that make the case's sizes the only optimum: every stage takes 1000 times the product of a few
    // sizes.
    std::vector<std::int64_t> times;
    for (const std::int64_t size : sizes)
      times.insert(times.end(), static_cast<std::size_t>(size), 14 * 15 * 4 * 5 / size);
    Profile profile = chain_of_times(times);
    for (const LayerId layer : ids<LayerId>(names.size())) profile.layers[layer].name = names[layer.index()];
    const Plan plan = answered(profile, equal_devices(static_cast<std::int64_t>(sizes.size())), {}).plan;
    CHECK(stage_sizes(plan) == sizes);
    const auto again = plan_from_json(to_json(plan), "plan.json");
    REQUIRE(again);
    CHECK(stage_sizes(*again) == sizes);
    CHECK(again->layer_names.values() == names);
    if (json == &bounds) CHECK(stage_bounds(plan) == (*json)["expect"]["deepspeed_parts"].get<Sizes>());
  }
}

TEST_CASE("case 60: a contiguous fit is found where greedy placement fails") {
  const Json json = read_case("60");
  std::vector<DeviceType> devices;
  for (const Json& device : json["input"]["devices"])
    devices.push_back(equal_devices(1, Bytes{device["memory_bytes"].get<std::int64_t>()}).front());
  const Plan plan = answered(profile_of(json["input"]), devices, options_of(json["input"])).plan;
  CHECK(stage_sizes(plan) == json["expect"]["only_feasible_sizes"][0].get<Sizes>());
  CHECK(memory_of(plan) == json["expect"]["stage_bytes"].get<Sizes>());
  CHECK(bottleneck_us(plan) == json["expect"]["bottleneck_us"]);
}

TEST_SUITE_END();
