#include "executor/executor.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "executor/cpu/cpu_executor.hpp"
#include "executor/gpu/gpu_executor.hpp"
#include "executor/program.hpp"
#include "executor/sleep/sleep_executor.hpp"
#include "executor/virtual/virtual_executor.hpp"
#include "simulator/check_schedule.hpp"

namespace pipeplan {
namespace {

Result<void> check_counts(const ExecuteOptions& options) {
  if (options.warm_ups < 1)
    return bad_usage(fmt::format("warm-up iterations are {}, wanted at least 1", options.warm_ups));
  if (options.iterations < 0)
    return bad_usage(fmt::format("iterations are {}, wanted at least 0", options.iterations));
  if (options.recorded && (*options.recorded < 1 || *options.recorded > options.warm_ups))
    return bad_usage(fmt::format("recorded iterations are {}, wanted 1 to {}, as there are warm-ups",
                                 *options.recorded, options.warm_ups));
  return {};
}

Result<void> check_network(const ModelGraph& model, const Plan& plan) {
  if (model.layers().size() != plan.layer_names.size())
    return bad_input({},
                     fmt::format("the plan has {} layers, the network has {}", plan.layer_names.size(),
                                 model.layers().size()),
                     "plan again from the profile of this network");
  return {};
}

// `plan` with all its layers in one stage on one device, without a memory limit, the global batch in as many
// micro-batches of the same size.
Plan single_stage(const Plan& plan) {
  Plan single = plan;
  single.cluster = ideal_cluster(1);
  single.stages = {StagePlan{.first = LayerId{0}, .last = plan.layer_names.end_id().previous()}};
  single.micro_batch_count = plan.micro_batch_count * plan.data_parallel;
  single.data_parallel = 1;
  return single;
}

// The micro-batches of one stage in the order in which their gradients are summed.
std::vector<MicrobatchId> summation_order(const Schedule& schedule, StageId stage) {
  std::vector<MicrobatchId> order;
  for (const auto& row : schedule.ranks)
    for (const Op& op : row)
      if (op.stage == stage && releases_activations(op.kind)) order.push_back(op.micro_batch);
  return order;
}

bool sums_as_one_stage(const Plan& plan, const Schedule& schedule) {
  const auto wanted =
      summation_order(make_schedule(plan.schedule, 1, schedule.micro_batch_count), StageId{0});
  for (const StageId stage : ids<StageId>(static_cast<std::size_t>(schedule.stage_count)))
    if (summation_order(schedule, stage) != wanted) return false;
  return true;
}

}  // namespace

Result<Execution> execute(const ModelGraph& model, const Schedule& schedule, const Plan& plan,
                          const PipelineCosts& costs, const ExecuteOptions& options) {
  PIPEPLAN_CHECK(check_counts(options));
  PIPEPLAN_CHECK(check_schedule(schedule));
  PIPEPLAN_CHECK(check_order_of(plan, schedule));
  switch (options.backend) {
    case Backend::cpu:
      PIPEPLAN_CHECK(check_network(model, plan));
      return execute_on_cpu(model, schedule, plan, costs, options);
    case Backend::cuda: {
      PIPEPLAN_CHECK(check_network(model, plan));
      PIPEPLAN_TRY(backend, cuda_backend());
      return execute_on_gpu(model, schedule, plan, costs, options, *backend);
    }
    case Backend::sleep: return execute_asleep(schedule, replication(plan), costs, options);
    case Backend::virtual_clock: return execute_virtually(schedule, replication(plan), costs);
  }
  PIPEPLAN_UNREACHABLE("a backend that is not dispatched");
}

Result<Execution> execute_single_stage(const ModelGraph& model, const Plan& plan,
                                       const ExecuteOptions& options) {
  const Plan single = single_stage(plan);
  PIPEPLAN_TRY(schedule, make_schedule(single));
  ExecuteOptions alone = options;
  alone.backend = Backend::cpu;
  alone.emulate_links = false;
  alone.checkpoints.reset();
  PipelineCosts no_costs;  // one stage has no boundary, and the CPU takes its own time
  no_costs.times = PerId<StageId, StageTimes>(1);
  no_costs.memory = PerId<StageId, StageMemory>(1);
  return execute(model, schedule, single, no_costs, alone);
}

Closeness wanted_closeness(const Plan& plan, const Schedule& schedule, Backend backend) {
  const bool whole = plan.data_parallel == 1 &&
                     std::ranges::all_of(plan.stages, [](const StagePlan& it) { return it.replicas == 1; });
  if (whole && backend == Backend::cpu && sums_as_one_stage(plan, schedule)) return {};
  return {.largest_distance_fraction = 1e-5, .parameters = plan.state.optimizer != OptimizerRule::adam};
}

}  // namespace pipeplan
