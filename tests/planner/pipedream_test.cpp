// Plans for measured networks in PipeDream's format.

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "models/import/pipedream.hpp"
#include "planner/planner.hpp"
#include "tests/planner/case_profile.hpp"
#include "tests/planner/instances.hpp"
#include "tests/support/reference.hpp"

using namespace pipeplan;
using namespace pipeplan::test;
using Sizes = std::vector<std::int64_t>;

namespace {

Profile pipedream_profile(const std::filesystem::path& path) {
  const auto text = read_text_file(path.string());
  REQUIRE(text);
  const auto imported = import_pipedream(*text, path.filename().string());
  REQUIRE(imported);
  return imported_profile(*imported);
}

Profile vgg16() { return pipedream_profile(data_folder() / "pipedream" / "vgg16.graph.txt"); }

PlanAnswer answered(const Profile& profile, std::size_t devices, const PlanOptions& options) {
  auto answer = make_plan(profile, cluster_of(std::vector<DeviceType>(devices)), options);
  REQUIRE(answer);
  REQUIRE(answer->outcome == PlanOutcome::planned);
  return *answer;
}

bool warns(const PlanAnswer& answer, WarningCode code) {
  return std::any_of(answer.warnings.begin(), answer.warnings.end(),
                     [code](const Warning& warning) { return warning.code == code; });
}

PlanOptions without_transfers() {
  PlanOptions options;
  options.transfers = TransferMode::ignored;
  return options;
}

}  // namespace

TEST_SUITE_BEGIN("reference");

TEST_CASE("vgg16: the optimum on 2, 4 and 8 stages, transfers ignored") {
  const Profile profile = vgg16();
  CHECK(answered(profile, 2, without_transfers()).plan.objective.value == Nanoseconds{377'045'000});
  CHECK(answered(profile, 4, without_transfers()).plan.objective.value == Nanoseconds{221'860'000});
  CHECK(answered(profile, 8, without_transfers()).plan.objective.value == Nanoseconds{159'531'000});
}

TEST_CASE("case 57: the real vgg16 profile, as given and with its input free") {
  const Json json = read_case("57");
  const Json& expect = json["expect"];
  Profile profile = vgg16();
  CHECK(profile.layers.size() == expect["nodes"]);
  CHECK(profile.edges.size() == expect["edges"]);
  for (const std::string input : {"by_stages_as_given", "by_stages_input_node_zeroed"}) {
    for (const auto& entry : expect[input].items()) {
      INFO(input, ", stages ", entry.key());
      const Plan plan = answered(profile, std::stoul(entry.key()), without_transfers()).plan;
      CHECK(plan.objective.value.count() == 1000 * entry.value()["bottleneck_us"].get<std::int64_t>());
      CHECK(plan.objective.optimal());
    }
    LayerCost& cost = profile.layers[LayerId{0}].costs.front();
    CHECK(cost.forward.count() ==
          (input == "by_stages_as_given" ? 1000 * expect["input_node_forward_us"].get<std::int64_t>() : 0));
    cost.forward = cost.backward_input = cost.backward_weight = Nanoseconds{0};
  }
}

TEST_CASE("vgg16: 8 stages stop at the largest layer, and a warning says so") {
  CHECK(warns(answered(vgg16(), 8, without_transfers()), WarningCode::indivisible_layer));
  CHECK_FALSE(warns(answered(vgg16(), 2, without_transfers()), WarningCode::indivisible_layer));
}

TEST_CASE("inception_v3: branches raise a warning") {
  const Profile profile = pipedream_profile(data_folder() / "pipedream" / "inception_v3.graph.txt");
  CHECK(warns(answered(profile, 4, without_transfers()), WarningCode::branching_model));
}

TEST_CASE("pipedream: all networks are planned on 4 stages, read back, and pass their own check") {
  int networks = 0;
  for (const auto& entry : std::filesystem::directory_iterator(data_folder() / "pipedream")) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".graph.txt")) continue;
    INFO(name);
    ++networks;
    const Profile profile = pipedream_profile(entry.path());
    const Plan plan = answered(profile, 4, {}).plan;
    CHECK(plan.objective.value >= plan.objective.trivial_bound);
    CHECK(plan.objective.optimal());
    const auto again = plan_from_json(to_json(plan), name);
    REQUIRE(again);
    CHECK(*again == plan);
    CHECK(check_plan_against(plan, profile));
  }
  CHECK(networks == 14);
}

TEST_SUITE_END();
