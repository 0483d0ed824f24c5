// Real training on threads: equal to one stage to the last bit, memory equal to the prediction to the byte.

#include <doctest/doctest.h>

#include <map>
#include <set>

#include "tests/executor/trainings.hpp"

namespace pipeplan {
namespace {

void check_training(const ModelGraph& model, std::int64_t micro_batch_size) {
  const Profile profile = test::quick_profile(model, micro_batch_size);
  for (const auto& entry : spellings(ScheduleKind{})) {
    for (const std::int64_t stages : {1, 2, 3}) {
      for (const std::int64_t micro_batches : {1, 2, 5}) {
        INFO(entry.text << ", " << stages << " stages, " << micro_batches << " micro-batches");
        const Plan plan = test::even_plan(profile, stages, micro_batches, entry.value);
        const test::Trained trained = test::train(model, profile, plan);
        test::check_trained(trained, model,
                            wanted_closeness(plan, make_schedule(plan).value(), Backend::cpu));
        CHECK(trained.execution.training->losses.size() == static_cast<std::size_t>(2 * micro_batches));
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
  const Timeline timeline = test::train(model, profile, plan).execution.timeline;
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

TEST_CASE("cpu executor: the loss of both networks falls as they train, whatever the optimizer") {
  for (const ModelGraph& model : {test::small_transformer(), test::small_mlp()}) {
    const Profile profile = test::quick_profile(model, 4);
    Plan plan = test::even_plan(profile, 2, 4, ScheduleKind::gpipe);
    for (const Optimizer& optimizer : {Optimizer{.rule = OptimizerRule::sgd, .learning_rate = 0.2F},
                                       Optimizer{.rule = OptimizerRule::momentum, .learning_rate = 0.05F},
                                       Optimizer{.rule = OptimizerRule::adam, .learning_rate = 0.01F}}) {
      INFO(model.name() << ", " << spelt(optimizer.rule));
      plan.state.optimizer = optimizer.rule;
      ExecuteOptions options = test::quick_options();
      options.iterations = 60;
      options.optimizer = optimizer;
      const Schedule schedule = make_schedule(plan).value();
      const auto execution =
          execute(model, schedule, plan, test::fitted_costs(profile, plan, schedule), options);
      REQUIRE(execution.has_value());
      CHECK(execution->mean_losses.size() == 62);
      CHECK(execution->mean_losses.back() < 0.9 * execution->mean_losses.front());
    }
  }
}

TEST_CASE("cpu executor: a seed gives the same training every time, another seed another") {
  const ModelGraph model = test::small_mlp();
  const Profile profile = test::quick_profile(model, 2);
  const Plan plan = test::even_plan(profile, 2, 2, ScheduleKind::one_f_one_b);
  ExecuteOptions options = test::quick_options();
  const Schedule schedule = make_schedule(plan).value();
  const TrainingRecord first = *test::train(model, profile, plan, schedule, options).execution.training;
  const TrainingRecord again = *test::train(model, profile, plan, schedule, options).execution.training;
  options.seed = 1;
  const TrainingRecord other = *test::train(model, profile, plan, schedule, options).execution.training;
  CHECK(compare_training(first, again, model, test::bit_for_bit).equal);
  CHECK(!compare_training(first, other, model, test::nearly).equal);
}

TEST_CASE("cpu executor: more workers than cores are refused unless cores may be shared") {
  const ModelGraph model = build_model(MlpSpec{.width = 2, .layers = 1024}).value();
  const Profile profile = test::quick_profile(model, 1);
  const Plan plan = test::even_plan(profile, 2000, 1, ScheduleKind::gpipe);
  const Schedule schedule = make_schedule(plan).value();
  ExecuteOptions options = test::quick_options();
  options.share_cores = false;
  const auto refused = execute(model, schedule, plan, test::fitted_costs(profile, plan, schedule), options);
  REQUIRE(!refused.has_value());
  CHECK(refused.error().message.find("2000 stages need 2000 cores") != std::string::npos);
}

TEST_CASE("cpu executor: an order of more stages than in the plan is refused by name") {
  const ModelGraph model = test::small_mlp();
  const Profile profile = test::quick_profile(model, 2);
  const Plan plan = test::even_plan(profile, 2, 2, ScheduleKind::gpipe);
  const Schedule schedule = make_schedule(plan).value();
  const auto refused = execute(model, make_schedule(ScheduleKind::gpipe, 3, 2), plan,
                               test::fitted_costs(profile, plan, schedule), test::quick_options());
  REQUIRE(!refused.has_value());
  CHECK(refused.error().message.find("3 stages") != std::string::npos);
}

}  // namespace pipeplan
