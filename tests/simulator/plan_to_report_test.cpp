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
  plan.stages.push_back({LayerId{0}, LayerId{1}, RankId{0}, DeviceId{0}});
  plan.stages.push_back({LayerId{2}, LayerId{3}, RankId{1}, DeviceId{1}});
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
