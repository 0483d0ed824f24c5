#pragma once

// Plans with replicas, copies, recomputation and chunks, run on the CPU and held against one stage and the
// simulator.

#include <doctest/doctest.h>

#include "executor/comparison.hpp"
#include "executor/executor.hpp"
#include "simulator/order_demand.hpp"
#include "simulator/simulate.hpp"
#include "tests/executor/orders.hpp"
#include "tests/executor/support.hpp"

namespace pipeplan::test {

inline ExecuteOptions quick_options() {
  ExecuteOptions options;
  options.warm_ups = 2;
  options.iterations = 2;
  options.share_cores = true;
  return options;
}

// `plan` with replicas by stage and copies, on as many devices as it takes.
inline Plan replicated(Plan plan, const std::vector<std::int64_t>& replicas, std::int64_t copies = 1) {
  std::int32_t next = 0;
  plan.data_parallel = copies;
  for (const StageId stage : ids<StageId>(plan.stages.size())) {
    StagePlan& part = plan.stages[stage];
    part.replicas = replicas.at(stage.index());
    part.devices.clear();
    for (std::int64_t i = 0; i < part.replicas * copies; ++i) part.devices.push_back(DeviceId{next++});
  }
  plan.cluster = ideal_cluster(next);
  return plan;
}

inline Plan recomputed(Plan plan, const Profile& profile) {
  for (StagePlan& stage : plan.stages)
    for (LayerId layer = stage.first; layer <= stage.last; layer = layer.next())
      if (profile.layers[layer].recomputable) stage.recompute.push_back(layer);
  return plan;
}

// Stage s on rank s mod `ranks`.
inline Plan chunked(Plan plan, std::int32_t ranks) {
  for (const StageId stage : ids<StageId>(plan.stages.size())) {
    plan.stages[stage].rank = RankId{stage.value % ranks};
    plan.stages[stage].devices = {DeviceId{stage.value % ranks}};
  }
  return plan;
}

// What one run gave, what was predicted and what one stage gives.
struct Trained {
  Execution execution;
  Timeline predicted;
  TrainingRecord single;
};

inline PipelineCosts fitted_costs(const Profile& profile, const Plan& plan, const Schedule& schedule) {
  return fit_to_order(pipeline_costs(plan, profile, plan.cluster).value(), order_demand(schedule));
}

inline Trained train(const ModelGraph& model, const Profile& profile, const Plan& plan,
                     const Schedule& schedule, ExecuteOptions options = quick_options()) {
  options.optimizer.rule = plan.state.optimizer;
  const PipelineCosts costs = fitted_costs(profile, plan, schedule);
  auto execution = execute(model, schedule, plan, costs, options);
  auto single = execute_single_stage(model, plan, options);
  if (!execution) FAIL(execution.error().where, ": ", execution.error().message);
  if (!single) FAIL(single.error().where, ": ", single.error().message);
  REQUIRE(execution->training.has_value());
  return {.execution = std::move(*execution),
          .predicted = simulate(schedule, costs).value(),
          .single = std::move(*single->training)};
}

inline Trained train(const ModelGraph& model, const Profile& profile, const Plan& plan) {
  return train(model, profile, plan, make_schedule(plan).value());
}

// The same numbers within `closeness`, the predicted order, and the predicted memory to the byte.
inline void check_trained(const Trained& trained, const ModelGraph& model, const Closeness& closeness) {
  const Equivalence equivalence =
      compare_training(*trained.execution.training, trained.single, model, closeness);
  CHECK_MESSAGE(equivalence.equal, equivalence.difference);
  const Comparison comparison = compare(trained.predicted, trained.execution.timeline);
  CHECK(comparison.order_inversions == 0);
  for (const RankComparison& rank : comparison.memory) CHECK(rank.measured == rank.predicted);
  for (const RankId rank : ids<RankId>(trained.predicted.memory.size()))
    CHECK(trained.execution.timeline.memory[rank].peak_in_flight ==
          trained.predicted.memory[rank].peak_in_flight);
}

inline constexpr Closeness bit_for_bit{};
inline constexpr Closeness nearly{.largest_distance_fraction = 1e-5};

}  // namespace pipeplan::test
