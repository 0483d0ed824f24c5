// A run that stops and resumes from its checkpoints trains as one that never stopped.

#include <doctest/doctest.h>

#include "executor/training_digest.hpp"
#include "tests/executor/temporary_folder.hpp"
#include "tests/executor/trainings.hpp"

namespace pipeplan {
namespace {

using test::TemporaryFolder;

struct Job {
  ModelGraph model = test::small_mlp();
  Profile profile = test::quick_profile(model, {2, 4});
  Plan plan;
  Schedule schedule;
  ExecuteOptions options = test::quick_options();

  explicit Job(std::int64_t copies) {
    PlanOptions request;
    request.algorithm = Algorithm::even_split;
    request.fewest_stages = request.most_stages = 2;
    request.micro_batch_size = 4;
    request.micro_batch_count = 3;
    plan = make_plan(profile, ideal_cluster(2), request).value().plan;
    plan = test::replicated(plan, {2, 1}, copies);
    plan.state.optimizer = OptimizerRule::adam;
    schedule = make_schedule(plan).value();
    options.optimizer = {.rule = OptimizerRule::adam, .learning_rate = 0.01F};
  }

  [[nodiscard]] Result<Execution> run(std::int64_t iterations, const CheckpointOptions& checkpoints) const {
    ExecuteOptions these = options;
    these.iterations = iterations - these.warm_ups;
    these.checkpoints = checkpoints;
    return execute(model, schedule, plan, test::fitted_costs(profile, plan, schedule), these);
  }
  [[nodiscard]] std::string digest() const { return training_digest(model, schedule, plan, options); }
};

Checkpoint checkpoint_of(const Job& job, const CheckpointOptions& options) {
  auto checkpoint = newest_checkpoint(options, job.digest());
  REQUIRE(checkpoint.has_value());
  REQUIRE(checkpoint->has_value());
  return std::move(**checkpoint);
}

}  // namespace

TEST_CASE(
    "resume: after any iteration, parameters, state and losses end as in an unbroken run, bit for bit") {
  for (const std::int64_t copies : {1, 2}) {
    const Job job(copies);
    const TemporaryFolder folder;
    const auto unbroken = job.run(6, folder.checkpoints("unbroken"));
    REQUIRE(unbroken.has_value());
    CHECK(unbroken->training.has_value());
    CHECK(!unbroken->resumed_at.has_value());
    const Checkpoint wanted = checkpoint_of(job, folder.checkpoints("unbroken"));
    CHECK(wanted.iterations == 6);
    for (const std::int64_t stop : {2, 3, 5}) {
      INFO(copies << " copies, stopped after " << stop);
      const CheckpointOptions broken = folder.checkpoints(std::to_string(stop));
      REQUIRE(job.run(stop, broken).has_value());
      const auto resumed = job.run(6, broken);
      REQUIRE(resumed.has_value());
      CHECK(resumed->resumed_at == stop);
      CHECK(resumed->mean_losses == unbroken->mean_losses);
      CHECK(!resumed->training.has_value());
      const Checkpoint seen = checkpoint_of(job, broken);
      REQUIRE(seen.stages.size() == wanted.stages.size());
      for (const StageId stage : ids<StageId>(wanted.stages.size())) {
        CHECK(seen.stages[stage].parameters == wanted.stages[stage].parameters);
        CHECK(seen.stages[stage].optimizer_state == wanted.stages[stage].optimizer_state);
      }
    }
  }
}

TEST_CASE("resume: where all iterations are done nothing runs") {
  const Job job(1);
  const TemporaryFolder folder;
  const CheckpointOptions options = folder.checkpoints("done");
  const auto whole = job.run(3, options);
  const auto again = job.run(3, options);
  REQUIRE(whole.has_value());
  REQUIRE(again.has_value());
  CHECK(again->resumed_at == 3);
  CHECK(again->iterations.empty());
  CHECK(again->mean_losses == whole->mean_losses);
}

TEST_CASE("resume: a checkpoint of another training is refused") {
  Job job(1);
  const TemporaryFolder folder;
  const CheckpointOptions options = folder.checkpoints("other");
  REQUIRE(job.run(3, options).has_value());
  job.options.seed = 7;
  const auto refused = job.run(4, options);
  REQUIRE(!refused.has_value());
  CHECK(refused.error().message.find("another training") != std::string::npos);
}

TEST_CASE("resume: checkpoints every second iteration are those of the second, fourth and so on") {
  const Job job(1);
  const TemporaryFolder folder;
  CheckpointOptions options = folder.checkpoints("second");
  options.every = 2;
  REQUIRE(job.run(5, options).has_value());
  CHECK(checkpoint_of(job, options).iterations == 4);
}

TEST_CASE("training digest: everything that changes the numbers changes it, devices and links do not") {
  const Job job(1);
  const std::string digest = job.digest();
  const auto changed = [&](const auto& change) {
    Job other = job;
    change(other);
    return other.digest() != digest;
  };
  CHECK(!changed([](Job&) {}));
  CHECK(changed([](Job& it) { it.options.seed = 1; }));
  CHECK(changed([](Job& it) { it.options.optimizer.rule = OptimizerRule::sgd; }));
  CHECK(changed([](Job& it) { it.options.optimizer.learning_rate = 0.02F; }));
  CHECK(changed([](Job& it) { it.plan.data_parallel = 2; }));
  CHECK(changed([](Job& it) { it.plan.micro_batch_size = 2; }));
  CHECK(changed([](Job& it) { it.plan.stages[StageId{0}].replicas = 1; }));
  CHECK(
      changed([](Job& it) { it.plan.stages[StageId{0}].last = it.plan.stages[StageId{0}].last.previous(); }));
  CHECK(changed([](Job& it) { it.schedule = make_schedule(ScheduleKind::gpipe, 2, 3); }));
  CHECK(changed([](Job& it) { it.model = test::small_transformer(); }));
  CHECK(!changed([](Job& it) { it.plan.cluster = ideal_cluster(9); }));
  CHECK(!changed([](Job& it) { it.plan.transfers = TransferMode::ignored; }));
  CHECK(!changed([](Job& it) { it.options.emulate_links = true; }));
  CHECK(!changed([](Job& it) { it.options.iterations = 99; }));
}

}  // namespace pipeplan
