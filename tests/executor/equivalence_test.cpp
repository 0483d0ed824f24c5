#include <doctest/doctest.h>

#include <limits>

#include "executor/executor.hpp"
#include "tests/executor/support.hpp"

namespace pipeplan {
namespace {

TrainingRecord record_of(const ModelGraph& model) {
  TrainingRecord record;
  record.losses = {1.0F, 2.0F};
  for (std::size_t i = 0; i < model.layers().size(); ++i) {
    record.gradients.push_back({3.0F, 4.0F});
    record.parameters.push_back({0.0F});
  }
  return record;
}

}  // namespace

TEST_CASE("compare_training: one flipped bit is found and named") {
  const ModelGraph model = test::small_mlp();
  const TrainingRecord record = record_of(model);
  TrainingRecord other = record;
  CHECK(compare_training(record, other, model, {}).equal);
  other.parameters[LayerId{1}][0] = -0.0F;
  const Equivalence found = compare_training(record, other, model, {});
  CHECK(!found.equal);
  CHECK(found.difference == "parameters of relu.0, element 0: 0 and -0");
}

TEST_CASE("compare_training: the distance of a tensor is that of its 2-norms, and only more is refused") {
  const ModelGraph model = test::small_mlp();
  const TrainingRecord single = record_of(model);
  TrainingRecord pipelined = single;
  pipelined.gradients[LayerId{2}] = {3.0F, 4.5F};
  const double distance = 0.5 / 5.0;  // || (0, 0.5) || / || (3, 4) ||
  const Equivalence near = compare_training(pipelined, single, model, {.largest_distance_fraction = 0.1001});
  CHECK(near.equal);
  CHECK(near.largest_distance_fraction == doctest::Approx(distance));
  const Equivalence far = compare_training(pipelined, single, model, {.largest_distance_fraction = 0.0999});
  CHECK(!far.equal);
  CHECK(far.difference == "gradient of hidden.1: relative distance 1.00e-01, allowed 1e-01");
}

TEST_CASE("compare_training: what is 0 must be near 0 by nothing, and a NaN is near nothing") {
  const ModelGraph model = test::small_mlp();
  const TrainingRecord single = record_of(model);
  for (const float value : {1e-30F, std::numeric_limits<float>::quiet_NaN()}) {
    TrainingRecord pipelined = single;
    pipelined.parameters[LayerId{0}][0] = value;
    CHECK(!compare_training(pipelined, single, model, {.largest_distance_fraction = 0.5}).equal);
  }
}

TEST_CASE("compare_training: where parameters are left out, losses and gradients still count") {
  const ModelGraph model = test::small_mlp();
  const TrainingRecord single = record_of(model);
  const Closeness closeness{.largest_distance_fraction = 1e-5, .parameters = false};
  TrainingRecord pipelined = single;
  pipelined.parameters[LayerId{1}][0] = 9.0F;
  CHECK(compare_training(pipelined, single, model, closeness).equal);
  pipelined.gradients[LayerId{1}][0] = 9.0F;
  CHECK(!compare_training(pipelined, single, model, closeness).equal);
}

TEST_CASE("compare_training: records of different sizes differ whatever is allowed") {
  const ModelGraph model = test::small_mlp();
  const TrainingRecord single = record_of(model);
  TrainingRecord shorter = single;
  shorter.losses.pop_back();
  CHECK(!compare_training(shorter, single, model, {.largest_distance_fraction = 1}).equal);
  TrainingRecord empty = single;
  empty.gradients = {};
  CHECK(!compare_training(empty, single, model, {.largest_distance_fraction = 1}).equal);
}

TEST_CASE("wanted_closeness: bit for bit on the CPU without replicas and copies, else 1e-5") {
  Plan plan;
  plan.stages = {StagePlan{}, StagePlan{}};
  const Schedule schedule = make_schedule(ScheduleKind::one_f_one_b, 2, 3);
  CHECK(wanted_closeness(plan, schedule, Backend::cpu).largest_distance_fraction == 0);
  CHECK(wanted_closeness(plan, schedule, Backend::cuda).largest_distance_fraction == 1e-5);
  plan.stages[StageId{1}].replicas = 2;
  CHECK(wanted_closeness(plan, schedule, Backend::cpu).largest_distance_fraction == 1e-5);
  CHECK(wanted_closeness(plan, schedule, Backend::cpu).parameters);
  plan.stages[StageId{1}].replicas = 1;
  plan.data_parallel = 2;
  CHECK(wanted_closeness(plan, schedule, Backend::cpu).largest_distance_fraction == 1e-5);
}

TEST_CASE("wanted_closeness: under adam parameters count bit for bit or not at all") {
  Plan plan;
  plan.stages = {StagePlan{}};
  const Schedule schedule = make_schedule(ScheduleKind::one_f_one_b, 1, 3);
  plan.state.optimizer = OptimizerRule::adam;
  CHECK(wanted_closeness(plan, schedule, Backend::cpu).parameters);
  CHECK(!wanted_closeness(plan, schedule, Backend::cuda).parameters);
  plan.data_parallel = 2;
  CHECK(!wanted_closeness(plan, schedule, Backend::cpu).parameters);
}

TEST_CASE("wanted_closeness: bit for bit only where every stage sums its gradients as one stage would") {
  Plan plan;
  plan.stages = {StagePlan{}, StagePlan{}};
  Schedule schedule = make_schedule(ScheduleKind::one_f_one_b, 2, 2);
  auto& row = schedule.ranks[RankId{1}];
  row = {parse_op("F1.0", "").value(), parse_op("B1.0", "").value(), parse_op("F1.1", "").value(),
         parse_op("B1.1", "").value(), parse_op("W1.0", "").value(), parse_op("W1.1", "").value()};
  CHECK(wanted_closeness(plan, schedule, Backend::cpu).to_the_last_bit());
  std::swap(row[4], row[5]);
  CHECK_FALSE(wanted_closeness(plan, schedule, Backend::cpu).to_the_last_bit());
}

}  // namespace pipeplan
