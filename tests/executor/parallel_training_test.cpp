// Training with replicas, copies, recomputation, W apart and several stages per rank: the same numbers as on
// one stage, to the last bit where the order of summation is the same, and the predicted memory to the byte.

#include <doctest/doctest.h>

#include "tests/executor/trainings.hpp"

namespace pipeplan {
namespace {

constexpr std::int64_t samples = 4;

struct Network {
  ModelGraph model;
  Profile profile;
};

Network network_of(ModelGraph model) {
  Profile profile = test::quick_profile(model, {1, 2, samples});
  return {.model = std::move(model), .profile = std::move(profile)};
}

std::vector<Network> networks() {
  std::vector<Network> both;
  both.push_back(network_of(test::small_transformer()));
  both.push_back(network_of(test::small_mlp()));
  return both;
}

// Plans of a network take micro-batches of `samples`.
Plan plan_of(const Network& network, std::int64_t stages, std::int64_t micro_batches, ScheduleKind schedule) {
  PlanOptions options;
  options.algorithm = Algorithm::even_split;
  options.fewest_stages = options.most_stages = stages;
  options.micro_batch_size = samples;
  options.micro_batch_count = micro_batches;
  options.schedule = schedule;
  return make_plan(network.profile, ideal_cluster(stages), options).value().plan;
}

void check_first_losses(const test::Trained& trained, std::int64_t micro_batches) {
  const auto& losses = trained.execution.training->losses;
  REQUIRE(losses.size() == trained.single.losses.size());
  for (std::size_t k = 0; k < static_cast<std::size_t>(micro_batches); ++k)
    CHECK(losses[k] == trained.single.losses[k]);
}

}  // namespace

TEST_CASE("replicas: any numbers of them side by side train as one stage does, up to rounding") {
  for (const Network& network : networks())
    for (const std::vector<std::int64_t>& replicas :
         std::vector<std::vector<std::int64_t>>{{2, 1, 1}, {1, 2, 4}, {4, 2, 1}, {2, 2, 2}, {1, 4, 1}}) {
      INFO(network.model.name() << ", replicas " << replicas[0] << ", " << replicas[1] << ", "
                                << replicas[2]);
      const Plan plan = test::replicated(plan_of(network, 3, 3, ScheduleKind::one_f_one_b), replicas);
      CHECK(wanted_closeness(plan, make_schedule(plan).value(), Backend::cpu).largest_distance_fraction ==
            1e-5);
      test::check_trained(test::train(network.model, network.profile, plan), network.model, test::nearly);
    }
}

TEST_CASE("copies: the losses of the first iteration are those of one stage bit for bit, the rest nearly") {
  for (const Network& network : networks())
    for (const std::int64_t copies : {2, 3}) {
      INFO(network.model.name() << ", " << copies << " copies");
      const Plan plan = test::replicated(plan_of(network, 2, 2, ScheduleKind::gpipe), {1, 1}, copies);
      const test::Trained trained = test::train(network.model, network.profile, plan);
      check_first_losses(trained, 2 * copies);
      test::check_trained(trained, network.model, test::nearly);
    }
}

TEST_CASE("copies of a pipeline with replicas, recomputed, with momentum, train nearly as one stage") {
  for (const Network& network : networks()) {
    INFO(network.model.name());
    Plan plan = test::replicated(plan_of(network, 2, 3, ScheduleKind::one_f_one_b), {2, 1}, 2);
    plan.state.optimizer = OptimizerRule::momentum;
    plan = test::recomputed(plan, network.profile);
    test::check_trained(test::train(network.model, network.profile, plan), network.model, test::nearly);
  }
}

TEST_CASE("recomputation: trains bit for bit as without, fused into the backward and apart from it") {
  for (const Network& network : networks())
    for (const auto& kind : spellings(ScheduleKind{}))
      for (const auto& mode : spellings(RecomputeMode{})) {
        INFO(network.model.name() << ", " << kind.text << ", " << mode.text);
        Plan plan = test::recomputed(plan_of(network, 3, 4, kind.value), network.profile);
        plan.recompute_mode = mode.value;
        const test::Trained trained = test::train(network.model, network.profile, plan);
        test::check_trained(trained, network.model,
                            wanted_closeness(plan, make_schedule(plan).value(), Backend::cpu));
      }
}

TEST_CASE("recomputation: some layers alone, in several runs, train bit for bit as without") {
  for (const Network& network : networks())
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      INFO(network.model.name() << ", seed " << seed);
      test::Random random(seed);
      Plan plan = test::recomputed(plan_of(network, 2, 3, ScheduleKind::one_f_one_b), network.profile);
      for (StagePlan& stage : plan.stages)
        std::erase_if(stage.recompute, [&](LayerId) { return random.coin(); });
      test::check_trained(test::train(network.model, network.profile, plan), network.model,
                          test::bit_for_bit);
    }
}

TEST_CASE("split backward: W behind the next op trains bit for bit as with both in one") {
  for (const Network& network : networks())
    for (const auto& kind : spellings(ScheduleKind{})) {
      INFO(network.model.name() << ", " << kind.text);
      const Plan plan = plan_of(network, 3, 4, kind.value);
      const Schedule schedule = test::with_split_backwards(make_schedule(plan).value());
      test::check_trained(test::train(network.model, network.profile, plan, schedule), network.model,
                          test::bit_for_bit);
    }
}

TEST_CASE("chunks: two and three stages per rank in random orders, W apart or not, train bit for bit") {
  for (const Network& network : networks())
    for (std::uint64_t seed = 0; seed < 30; ++seed) {
      INFO(network.model.name() << ", seed " << seed);
      test::Random random(seed);
      const auto ranks = static_cast<std::int32_t>(random.between(1, 2));
      test::OrderShape shape{.ranks = ranks, .micro_batches = 3, .stages = {}, .shuffled = false};
      for (std::int64_t stage = ranks * random.between(2, 3); stage > 0; --stage)
        shape.stages.push_back(random.coin() ? test::BackwardForm::fused : test::BackwardForm::split);
      const auto stages = static_cast<std::int64_t>(shape.stages.size());
      const Plan plan = test::chunked(plan_of(network, stages, 3, ScheduleKind::one_f_one_b), ranks);
      const Schedule schedule = test::queued_order(random, shape);
      test::check_trained(test::train(network.model, network.profile, plan, schedule), network.model,
                          test::bit_for_bit);
    }
}

TEST_CASE("chunks: with replicas, copies and recomputation apart they train nearly as one stage") {
  for (const Network& network : networks())
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      INFO(network.model.name() << ", seed " << seed);
      test::Random random(seed);
      const test::OrderShape shape{.ranks = 2,
                                   .micro_batches = 3,
                                   .stages = std::vector(4, test::BackwardForm::recomputed),
                                   .shuffled = false};
      Plan plan = test::chunked(plan_of(network, 4, 3, ScheduleKind::one_f_one_b), 2);
      plan = test::recomputed(plan, network.profile);
      plan.cluster = ideal_cluster(2 * 2 + 2 * 1);
      for (StagePlan& stage : plan.stages) {
        const bool doubled = stage.rank == RankId{0};
        stage.replicas = doubled ? 2 : 1;
        stage.devices = doubled ? std::vector{DeviceId{0}, DeviceId{1}, DeviceId{2}, DeviceId{3}}
                                : std::vector{DeviceId{4}, DeviceId{5}};
      }
      plan.data_parallel = 2;
      Schedule schedule = test::queued_order(random, shape);
      // The loss is not recomputable: a last stage of it alone has nothing to run again.
      if (plan.stages.back().recompute.empty())
        for (auto& row : schedule.ranks)
          std::erase_if(row,
                        [](const Op& op) { return op.kind == OpKind::recompute && op.stage == StageId{3}; });
      test::check_trained(test::train(network.model, network.profile, plan, schedule), network.model,
                          test::nearly);
    }
}

TEST_CASE("optimizers: momentum and adam train a pipeline bit for bit as one stage, state in memory") {
  for (const Network& network : networks())
    for (const OptimizerRule rule : {OptimizerRule::momentum, OptimizerRule::adam}) {
      INFO(network.model.name() << ", " << spelt(rule));
      Plan plan = plan_of(network, 3, 3, ScheduleKind::one_f_one_b);
      plan.state.optimizer = rule;
      const test::Trained trained = test::train(network.model, network.profile, plan);
      test::check_trained(trained, network.model, test::bit_for_bit);
      const MemoryUse peak = trained.execution.timeline.memory[RankId{0}].peak;
      CHECK(peak[MemoryItem::optimizer_state] == peak[MemoryItem::weights] * state_buffer_count(rule));
    }
}

TEST_CASE("optimizers: adam with replicas and copies keeps losses and gradients near those of one stage") {
  for (const Network& network : networks()) {
    INFO(network.model.name());
    Plan plan = test::replicated(plan_of(network, 2, 3, ScheduleKind::one_f_one_b), {2, 1}, 2);
    plan.state.optimizer = OptimizerRule::adam;
    ExecuteOptions options = test::quick_options();
    options.warm_ups = 4;
    options.optimizer.learning_rate = 0.01F;
    const test::Trained trained =
        test::train(network.model, network.profile, plan, make_schedule(plan).value(), options);
    test::check_trained(trained, network.model,
                        wanted_closeness(plan, make_schedule(plan).value(), Backend::cpu));
  }
}

TEST_CASE("a stage that recomputes has no split backward: refused by name") {
  const Network network = network_of(test::small_mlp());
  const Plan plan = test::recomputed(plan_of(network, 2, 2, ScheduleKind::gpipe), network.profile);
  const Schedule schedule = test::with_split_backwards(make_schedule(plan).value());
  const auto refused = execute(network.model, schedule, plan,
                               test::fitted_costs(network.profile, plan, schedule), test::quick_options());
  REQUIRE(!refused.has_value());
  CHECK(refused.error().message.find("stage 0 recomputes") != std::string::npos);
}

}  // namespace pipeplan
