#include <doctest/doctest.h>

#include "planner/planner.hpp"
#include "tests/planner/instances.hpp"

using namespace pipeplan;
using namespace pipeplan::test;

namespace {

Profile sample_profile() {
  return chain_profile({{.forward = 5, .activation = 4}, {.forward = 5, .activation = 3}});
}

Plan sample_plan(const Profile& profile) {
  PlanOptions options;
  options.micro_batch_count = 2;
  options.memory_limit = Bytes{10};
  auto answer = make_plan(profile, cluster_of({{}, {}}), options);
  REQUIRE(answer);
  REQUIRE(answer->outcome == PlanOutcome::planned);
  return answer->plan;
}

}  // namespace

TEST_CASE("check_plan_against: a plan passes with the profile it was made for") {
  const Profile profile = sample_profile();
  CHECK(check_plan_against(sample_plan(profile), profile));
}

TEST_CASE("check_plan_against: another profile is refused by its digest, and --force goes on") {
  const Plan plan = sample_plan(sample_profile());
  Profile slower = sample_profile();
  slower.layers[LayerId{0}].costs[0].forward = Nanoseconds{6};
  const auto stale = check_plan_against(plan, slower);
  REQUIRE(!stale);
  CHECK(stale.error().code == ErrorCode::bad_input);
  CHECK(stale.error().message.find(plan.profile_digest) != std::string::npos);
  CHECK(stale.error().message.find(profile_digest(slower)) != std::string::npos);
  CHECK(stale.error().hint.find("--force") != std::string::npos);
  CHECK(check_plan_against(plan, slower, StaleProfile::allowed));
}

TEST_CASE("check_plan_against: other layer names are refused even with --force") {
  const Plan plan = sample_plan(sample_profile());
  Profile other = sample_profile();
  other.layers[LayerId{1}].name = "head";
  const auto refused = check_plan_against(plan, other, StaleProfile::allowed);
  REQUIRE(!refused);
  CHECK(refused.error().message == "layer 1 is 'l1', in the profile it is 'head'");
}

TEST_CASE("check_plan_against: a stage over its device memory fails the check, with both numbers") {
  const Profile profile = sample_profile();
  Plan plan = sample_plan(profile);
  for (auto& [name, type] : plan.cluster.device_types) type.memory = Bytes{7};
  const auto failed = check_plan_against(plan, profile);
  REQUIRE(!failed);
  CHECK(failed.error().code == ErrorCode::check_failed);
  CHECK(failed.error().message == "stage 0 needs 8 bytes, but device 0 has 7 bytes");
}

TEST_CASE("check_plan_against: a value that the costs do not bear out fails the check") {
  const Profile profile = sample_profile();
  Plan plan = sample_plan(profile);
  plan.objective.value = plan.objective.lower_bound = Nanoseconds{4};
  const auto failed = check_plan_against(plan, profile);
  REQUIRE(!failed);
  CHECK(failed.error().code == ErrorCode::check_failed);
  CHECK(failed.error().message == "is 4 ns, but under this profile the slowest stage takes 5 ns");
}

TEST_CASE(
    "check_plan_against: several stages of a rank need together, the reserve once, a micro-batch each") {
  const Profile profile = sample_profile();
  Plan plan = sample_plan(profile);
  plan.stages[StageId{1}].rank = plan.stages[StageId{0}].rank;
  plan.stages[StageId{1}].devices = plan.stages[StageId{0}].devices;
  for (auto& [name, type] : plan.cluster.device_types)
    type.reserved = Bytes{100}, type.memory = Bytes{100 + 4 + 3};
  plan.profile_digest = profile_digest(profile);
  CHECK(check_plan_against(plan, profile));
  for (auto& [name, type] : plan.cluster.device_types) type.memory = Bytes{100 + 4 + 3 - 1};
  const auto failed = check_plan_against(plan, profile);
  REQUIRE(!failed);
  CHECK(failed.error().message == "rank 0 needs at least 107 bytes, but device 0 has 106 bytes");
}
