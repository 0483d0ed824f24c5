// Real training on threads: equal to one stage to the last bit, memory equal to the prediction to the byte.

#include <doctest/doctest.h>

#include <set>

#include "executor/comparison.hpp"
#include "executor/executor.hpp"
#include "simulator/simulate.hpp"
#include "tests/executor/support.hpp"

namespace pipeplan {
namespace {

struct TrainedPlan {
  Execution execution;
  Timeline predicted;
  Equivalence equivalence;
};

ExecuteOptions quick_options() {
  ExecuteOptions options;
  options.warm_ups = 2;
  options.iterations = 2;
  options.share_cores = true;
  return options;
}

TrainedPlan train(const ModelGraph& model, const Profile& profile, const Plan& plan) {
  const auto costs = pipeline_costs(plan, profile, plan.cluster);
  const auto schedule = make_schedule(plan);
  REQUIRE(costs.has_value());
  REQUIRE(schedule.has_value());
  auto execution = execute(model, *schedule, plan, *costs, quick_options());
  auto single = execute_single_stage(model, plan, profile, quick_options());
  REQUIRE(execution.has_value());
  REQUIRE(single.has_value());
  return {.execution = *execution,
          .predicted = simulate(*schedule, *costs).value(),
          .equivalence = compare_training(execution->training, single->training, model)};
}

void check_training(const ModelGraph& model, std::int64_t micro_batch_size) {
  const Profile profile = test::quick_profile(model, micro_batch_size);
  for (const auto& entry : spellings(ScheduleKind{})) {
    for (const std::int64_t stages : {1, 2, 3}) {
      for (const std::int64_t micro_batches : {1, 2, 5}) {
        INFO(entry.text << ", " << stages << " stages, " << micro_batches << " micro-batches");
        const TrainedPlan trained =
            train(model, profile, test::even_plan(profile, stages, micro_batches, entry.value));
        CHECK_MESSAGE(trained.equivalence.equal, trained.equivalence.difference);
        CHECK(trained.execution.training.losses.size() == static_cast<std::size_t>(2 * micro_batches));
        const Comparison comparison = compare(trained.predicted, trained.execution.timeline);
        CHECK(comparison.order_inversions == 0);
        for (const RankComparison& rank : comparison.memory) CHECK(rank.measured == rank.predicted);
        for (const RankId rank : ids<RankId>(trained.predicted.memory.size()))
          CHECK(trained.execution.timeline.memory[rank].peak_in_flight ==
                trained.predicted.memory[rank].peak_in_flight);
      }
    }
  }
}

}  // namespace

TEST_CASE("cpu executor: a transformer trains as on one stage, bit for bit, in the predicted memory") {
  check_training(test::small_transformer(), 2);
}

TEST_CASE("cpu executor: an mlp trains as on one stage, bit for bit, in the predicted memory") {
  check_training(test::small_mlp(), 3);
}

TEST_CASE(
    "cpu executor: a measured timeline holds every op once, ranks run one at a time, inputs come first") {
  const ModelGraph model = test::small_transformer();
  const Profile profile = test::quick_profile(model, 2);
  const Plan plan = test::even_plan(profile, 3, 4, ScheduleKind::one_f_one_b);
  const Timeline timeline = train(model, profile, plan).execution.timeline;
  std::set<Op> ops;
  std::map<RankId, Nanoseconds> free;
  for (const Span& span : timeline.spans) {
    CHECK(ops.insert(span.op).second);
    CHECK(span.start >= free[span.rank]);
    CHECK(span.end >= span.start);
    free[span.rank] = span.end;
  }
  CHECK(ops.size() == 2 * 3 * 4);
  CHECK(timeline.transfers.size() == 2 * 2 * 4);
  CHECK(timeline.spans.front().start == Nanoseconds{0});
  for (const Transfer& transfer : timeline.transfers)
    for (const Span& span : timeline.spans) {
      const bool takes = span.op.stage == transfer.to && span.op.micro_batch == transfer.micro_batch &&
                         (span.op.kind == OpKind::forward) == (transfer.direction == Direction::forward);
      if (takes) CHECK(span.start >= transfer.end);
    }
}

TEST_CASE("cpu executor: the loss of both networks falls as they train") {
  for (const ModelGraph& model : {test::small_transformer(), test::small_mlp()}) {
    const Profile profile = test::quick_profile(model, 4);
    const Plan plan = test::even_plan(profile, 2, 4, ScheduleKind::gpipe);
    const auto costs = pipeline_costs(plan, profile, plan.cluster);
    ExecuteOptions options = quick_options();
    options.iterations = 60;
    options.learning_rate = 0.2;
    const auto execution = execute(model, *make_schedule(plan), plan, *costs, options);
    REQUIRE(execution.has_value());
    CHECK(execution->mean_losses.size() == 62);
    CHECK(execution->mean_losses.back() < 0.9 * execution->mean_losses.front());
  }
}

TEST_CASE("cpu executor: a seed gives the same training every time, another seed another") {
  const ModelGraph model = test::small_mlp();
  const Profile profile = test::quick_profile(model, 2);
  const Plan plan = test::even_plan(profile, 2, 2, ScheduleKind::one_f_one_b);
  const auto costs = pipeline_costs(plan, profile, plan.cluster);
  ExecuteOptions options = quick_options();
  const auto first = execute(model, *make_schedule(plan), plan, *costs, options);
  const auto again = execute(model, *make_schedule(plan), plan, *costs, options);
  options.seed = 1;
  const auto other = execute(model, *make_schedule(plan), plan, *costs, options);
  CHECK(compare_training(first->training, again->training, model).equal);
  CHECK(!compare_training(first->training, other->training, model).equal);
}

TEST_CASE("cpu executor: more stages than cores are refused unless cores may be shared") {
  const ModelGraph model = build_model(MlpSpec{.width = 2, .layers = 1024}).value();
  const Profile profile = test::quick_profile(model, 1);
  const Plan plan = test::even_plan(profile, 2000, 1, ScheduleKind::gpipe);
  ExecuteOptions options;
  const auto refused =
      execute(model, *make_schedule(plan), plan, *pipeline_costs(plan, profile, plan.cluster), options);
  REQUIRE(!refused.has_value());
  CHECK(refused.error().message.find("2000 stages need 2000 cores") != std::string::npos);
}

TEST_CASE("compare_training: one flipped bit is found and named") {
  const ModelGraph model = test::small_mlp();
  TrainingRecord record;
  record.losses = {1.0F, 2.0F};
  for (std::size_t i = 0; i < model.layers().size(); ++i) {
    record.gradients.push_back({0.5F, 0.25F});
    record.parameters.push_back({0.0F});
  }
  TrainingRecord other = record;
  CHECK(compare_training(record, other, model).equal);
  other.parameters[LayerId{1}][0] = -0.0F;
  const Equivalence found = compare_training(record, other, model);
  CHECK(!found.equal);
  CHECK(found.difference == "parameters of relu.0, element 0: 0 and -0");
}

}  // namespace pipeplan
