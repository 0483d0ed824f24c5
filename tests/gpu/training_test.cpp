// Profile, plan and train on this machine's GPU: numbers as on the CPU, memory as predicted.

#include <doctest/doctest.h>

#include "tests/executor/gpu/gpu_runs.hpp"
#include "tests/gpu/queues.hpp"

using namespace pipeplan;
using namespace pipeplan::test;

namespace {

constexpr double other_hardware = 1e-5;

Profile gpu_profile(const ModelGraph& model, std::int64_t micro_batch_size) {
  ProfileOptions options;
  options.backend = Backend::cuda;
  options.micro_batch_sizes = {micro_batch_size};
  options.stopping.warm_ups = 1;
  options.stopping.least = options.stopping.most = 2;
  auto profiling = profile_model(model, options);
  if (!profiling) FAIL(profiling.error().where, ": ", profiling.error().message);
  return std::move(profiling->profile);
}

void check_pipeline(const ModelGraph& model, std::int64_t stages, ScheduleKind kind,
                    PartitionKind partitions) {
  INFO(stages, " stages, ", spelt(kind), ", ", spelt(partitions));
  const Profile profile = gpu_profile(model, 4);
  const Plan plan = even_plan(profile, stages, 4, kind);
  const Schedule schedule = make_schedule(plan).value();
  ExecuteOptions options = training_options();
  options.partitions = partitions;
  const PipelineCosts costs =
      fit_to_order(pipeline_costs(plan, profile, plan.cluster).value(), order_demand(schedule));
  const auto execution = execute_on_gpu(model, schedule, plan, costs, options, backend());
  if (!execution) FAIL(execution.error().where, ": ", execution.error().message);
  check_training(*execution, model, plan, options, other_hardware);
  const Timeline predicted = simulated(profile, plan, schedule);
  for (const RankId rank : ids<RankId>(predicted.memory.size()))
    CHECK(execution->timeline.memory[rank].peak == predicted.memory[rank].peak);
}

}  // namespace

TEST_CASE("gpu training: pipelines on green contexts equal one stage of the CPU, memory to the byte") {
  for (const ModelGraph& model : {small_mlp(), small_transformer()})
    for (const std::int64_t stages : {1, 2, 4})
      check_pipeline(model, stages, ScheduleKind::one_f_one_b, PartitionKind::green);
}

TEST_CASE("gpu training: gpipe on plain streams equals one stage of the CPU") {
  check_pipeline(small_transformer(), 2, ScheduleKind::gpipe, PartitionKind::streams);
}
