#include "tools/cli/plan_flags.hpp"

#include <CLI/CLI.hpp>

#include "simulator/report.hpp"
#include "simulator/simulate.hpp"
#include "tools/cli/flags.hpp"

namespace pipeplan {

void PlanFlags::declare(CLI::App& app) {
  app.add_option(
      "--cluster", cluster,
      "built-in cluster (see 'pipeplan show clusters') or cluster document; without it ideal devices with "
      "unlimited memory and free transfers");
  app.add_option("--global-batch", global_batch, "samples per iteration");
  app.add_option("--transfers", transfers, "how transfers count: " + word_choice<TransferMode>())
      ->capture_default_str();
  app.add_option("--optimizer", optimizer, "whose state takes memory: " + word_choice<OptimizerRule>())
      ->capture_default_str();
  app.add_option("--state-bytes-per-parameter-byte", state_factor,
                 "weights, gradients and state together, in multiples of the weights; overrides --optimizer");
  app.add_option("--memory", memory, "memory per device, as 16GiB; overrides the cluster's");
  app.add_option("--data-parallel", data_parallel,
                 "copies of the whole pipeline, each with its share of the global batch")
      ->capture_default_str();
  app.add_option(
         "--recompute", recompute,
         "layers that run forward again instead of keeping activations: " + word_choice<Recomputation>())
      ->capture_default_str();
  app.add_option("--recompute-mode", recompute_mode,
                 "whether that waits for the gradient (fused) or not: " + word_choice<RecomputeMode>())
      ->capture_default_str();
  app.add_option("--algorithm", algorithm, "how to cut: " + word_choice<Algorithm>())->capture_default_str();
  app.add_flag("--extrapolate", extrapolate, "allow micro-batch sizes outside the profiled range");
}

Result<PlanOptions> PlanFlags::options() const {
  PlanOptions options;
  PIPEPLAN_TRY(mode, parse_word<TransferMode>(transfers, "--transfers"));
  PIPEPLAN_TRY(rule, parse_word<OptimizerRule>(optimizer, "--optimizer"));
  PIPEPLAN_TRY(chosen, parse_word<Algorithm>(algorithm, "--algorithm"));
  PIPEPLAN_TRY(recomputed, parse_word<Recomputation>(recompute, "--recompute"));
  PIPEPLAN_TRY(when, parse_word<RecomputeMode>(recompute_mode, "--recompute-mode"));
  if (data_parallel < 1 || data_parallel > largest_device_count)
    return bad_usage(
        fmt::format("--data-parallel is {}, wanted 1 to {}", data_parallel, largest_device_count));
  options.transfers = mode;
  options.recompute = recomputed;
  options.recompute_mode = when;
  options.data_parallel = data_parallel;
  options.state.optimizer = rule;
  options.algorithm = chosen;
  options.state.total_factor = state_factor;
  if (!memory.empty()) {
    PIPEPLAN_TRY(limit, parse_bytes(memory, "--memory"));
    options.memory_limit = limit;
  }
  if (global_batch != 0) options.global_batch = global_batch;
  if (extrapolate) options.extrapolation = Extrapolation::allowed;
  return options;
}

Result<Cluster> PlanFlags::machine(std::int64_t stages) const {
  if (!cluster.empty()) return load_cluster(cluster);
  if (stages > largest_device_count / data_parallel)
    return bad_usage(fmt::format("{} stages in {} copies are more than {} devices", stages, data_parallel,
                                 largest_device_count));
  return ideal_cluster(stages * data_parallel);
}

Result<void> predict(Plan& plan, const Profile& profile, Extrapolation extrapolation) {
  PIPEPLAN_TRY(costs, pipeline_costs(plan, profile, plan.cluster, extrapolation));
  PIPEPLAN_TRY(schedule, make_schedule(plan));
  PIPEPLAN_TRY(timeline, simulate(schedule, costs));
  const Report report = summarize(timeline, schedule, costs, plan.global_batch());
  plan.prediction.iteration = report.iteration;
  plan.prediction.bubble_fraction = report.bubble_fraction;
  return {};
}

}  // namespace pipeplan
