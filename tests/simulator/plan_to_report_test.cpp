// The whole walk from a plan, a profile and a cluster to a report.

#include <doctest/doctest.h>

#include "simulator/report.hpp"
#include "simulator/simulate.hpp"

using namespace pipeplan;

namespace {

constexpr std::int64_t forward_ns = 100, backward_ns = 200;

Profile four_equal_layers() {
  Profile profile;
  profile.model = "four";
  for (const char* name : {"a", "b", "c", "d"}) {
    LayerCost cost;
    cost.micro_batch_size = 2;
    cost.forward = Nanoseconds{forward_ns};
    cost.backward_input = Nanoseconds{backward_ns};
    cost.activation = Bytes{64};
    cost.output = Bytes{1000};
    ProfiledLayer layer;
    layer.name = name;
    layer.kind = "linear";
    layer.costs = {cost};
    profile.layers.push_back(layer);
  }
  for (std::int32_t i = 0; i + 1 < 4; ++i) profile.edges.push_back({LayerId{i}, LayerId{i + 1}, Bytes{1000}});
  return profile;
}

Plan two_stages(const Profile& profile, std::int64_t micro_batches) {
  Plan plan;
  plan.model = profile.model;
  plan.profile_digest = profile_digest(profile);
  plan.cluster = ideal_cluster(2);
  plan.schedule = ScheduleKind::one_f_one_b;
  plan.micro_batch_size = 2;
  plan.micro_batch_count = micro_batches;
  for (const ProfiledLayer& layer : profile.layers) plan.layer_names.push_back(layer.name);
  plan.stages.push_back({LayerId{0}, LayerId{1}, RankId{0}, {DeviceId{0}}});
  plan.stages.push_back({LayerId{2}, LayerId{3}, RankId{1}, {DeviceId{1}}});
  return plan;
}

}  // namespace

TEST_CASE("plan to report: two equal stages with three micro-batches take (3+2-1) stage times") {
  const Profile profile = four_equal_layers();
  const Plan plan = two_stages(profile, 3);
  const Timeline timeline = simulate(make_schedule(plan).value(), plan, profile, plan.cluster).value();
  CHECK(timeline.makespan == Nanoseconds{(3 + 2 - 1) * 2 * (forward_ns + backward_ns)});
  const Report report = summarize(timeline, plan, profile).value();
  CHECK(report.bubble_fraction == 1.0 / 4);
  REQUIRE(report.closed_form.has_value());
  CHECK(report.closed_form->makespan == timeline.makespan);
  CHECK(report.samples_per_second.value() == 2 * 3 * 1e9 / 2400);
  CHECK(report.ranks[RankId{0}].peak_memory[MemoryItem::activations] == Bytes{2 * 2 * 64});
}

TEST_CASE("plan to report: another cluster than that of the plan asks what if") {
  const Profile profile = four_equal_layers();
  const Plan plan = two_stages(profile, 3);
  Cluster faster = plan.cluster;
  for (auto& [name, type] : faster.device_types) type.speed_factor = 2;
  const Schedule schedule = make_schedule(plan).value();
  CHECK(simulate(schedule, plan, profile, faster).value().makespan ==
        Nanoseconds{(3 + 2 - 1) * (forward_ns + backward_ns)});
}

TEST_CASE("plan to report: a timeline of another pipeline than that of the plan is refused") {
  const Profile profile = four_equal_layers();
  const auto report = summarize(Timeline{}, two_stages(profile, 3), profile);
  REQUIRE_FALSE(report.has_value());
  CHECK(report.error().where == "timeline#/memory");
}

TEST_CASE("plan to report: replicas on free links halve the stage times, and the throughput doubles") {
  Profile profile = four_equal_layers();
  for (ProfiledLayer& layer : profile.layers) {
    LayerCost half = layer.costs.front();
    half.micro_batch_size = 1;
    half.forward /= 2;
    half.backward_input /= 2;
    layer.costs.insert(layer.costs.begin(), half);
  }
  const auto report_with = [&](std::int64_t replicas) {
    Plan plan = two_stages(profile, 3);
    plan.cluster = ideal_cluster(4);
    if (replicas == 2)
      for (StagePlan& stage : plan.stages) {
        stage.replicas = 2;
        stage.devices = {DeviceId{2 * stage.rank.value}, DeviceId{2 * stage.rank.value + 1}};
      }
    const Timeline timeline = simulate(make_schedule(plan).value(), plan, profile, plan.cluster).value();
    return summarize(timeline, plan, profile).value();
  };
  const Report one = report_with(1), two = report_with(2);
  CHECK(2 * two.makespan == one.makespan);
  CHECK(*two.samples_per_second == 2 * *one.samples_per_second);
  CHECK(two.bubble_fraction == one.bubble_fraction);
}

TEST_CASE("plan to report: copies of the pipeline multiply the samples and add the all-reduce to the step") {
  Profile profile = four_equal_layers();
  for (ProfiledLayer& layer : profile.layers) layer.parameter_bytes = Bytes{600};
  Plan plan = two_stages(profile, 3);
  plan.data_parallel = 3;
  plan.cluster = ideal_cluster(6);
  plan.cluster.nodes.front().link = {BytesPerSecond{1'000'000'000}, Nanoseconds{2}};
  for (StagePlan& stage : plan.stages)
    stage.devices = {stage.device(), DeviceId{stage.rank.value + 2}, DeviceId{stage.rank.value + 4}};
  const Timeline timeline = simulate(make_schedule(plan).value(), plan, profile, plan.cluster).value();
  const Report report = summarize(timeline, plan, profile).value();
  constexpr std::int64_t ring = 2 * 2 * (2 * 600) / 3 + 2 * 2 * 2;
  CHECK(report.step == Nanoseconds{ring});
  CHECK(report.all_reduce == Nanoseconds{ring});
  CHECK(*report.samples_per_second == 3 * 2 * 3 * 1e9 / static_cast<double>(report.iteration.count()));
}

TEST_CASE("plan to report: an order for a plan stands on its ranks and recomputes what it does") {
  const Profile profile = four_equal_layers();
  Plan plan = two_stages(profile, 1);
  const auto refusal = [&](const Schedule& schedule) {
    const auto timeline = simulate(schedule, plan, profile, plan.cluster);
    return timeline ? std::string("accepted") : timeline.error().message;
  };
  const auto op = [](OpKind kind, std::int32_t stage) { return Op{kind, StageId{stage}, MicrobatchId{0}}; };
  using enum OpKind;
  Schedule schedule = make_schedule(plan).value();
  CHECK(refusal(schedule) == "accepted");
  CHECK(refusal(make_schedule(ScheduleKind::gpipe, 2, 2)) ==
        "is an order of 2 stages and 2 micro-batches, wanted 2 and 1 as in the plan");
  std::swap(schedule.ranks[RankId{0}], schedule.ranks[RankId{1}]);
  CHECK(refusal(schedule) == "F1.0 stands on rank 0, but the plan has stage 1 on rank 1");
  schedule.ranks[RankId{0}] = {op(forward, 0), op(recompute, 0), op(backward, 0)};
  schedule.ranks[RankId{1}] = {op(forward, 1), op(backward_input, 1), op(backward_weight, 1)};
  CHECK(refusal(schedule) == "R0.0: stage 0 recomputes nothing");
  plan.stages[StageId{0}].recompute = {LayerId{1}};
  CHECK(refusal(schedule) == "accepted");
  plan.stages[StageId{1}].recompute = {LayerId{2}};
  CHECK(refusal(schedule) == "B1.0: stage 1 recomputes, so its backward cannot be split, wanted X");
}
