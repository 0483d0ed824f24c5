#pragma once

// Pipelines on the GPU that is none, and what they must equal: the same training on one stage of the CPU, and
// the simulation, which knows the same durations.

#include <doctest/doctest.h>

#include <sstream>
#include <string>
#include <vector>

#include "executor/gpu/gpu_executor.hpp"
#include "simulator/order_demand.hpp"
#include "simulator/simulate.hpp"
#include "tests/executor/support.hpp"
#include "tests/support/host_gpu.hpp"

namespace pipeplan::test {

// What a layer's pass takes on the GPU; another time for each.
inline Nanoseconds known_time(std::int64_t layer, LayerPass pass) {
  switch (pass) {
    case LayerPass::forward: return Nanoseconds{100 * (layer + 1)};
    case LayerPass::backward_input: return Nanoseconds{170 * (layer + 2)};
    case LayerPass::backward_weight: return Nanoseconds{130 * (layer + 3)};
    case LayerPass::optimizer: return Nanoseconds{90 * (layer + 1)};
    case LayerPass::transfer:
    case LayerPass::other: break;
  }
  return {};
}

inline HostGpuOptions known_times() {
  HostGpuOptions options;
  options.time = [](const HostGpuWork& work) { return known_time(work.label.layer, work.label.pass); };
  return options;
}

// A profile of the right sizes at `sizes` samples with the known times, whatever the size.
inline Profile known_profile(const ModelGraph& model, const std::vector<std::int64_t>& sizes) {
  ProfileOptions options;
  options.micro_batch_sizes = sizes;
  options.stopping.warm_ups = 0;
  options.stopping.least = options.stopping.most = 1;
  Profile profile = profile_model(model, options).value().profile;
  for (const LayerId id : ids<LayerId>(profile.layers.size())) {
    const bool learns = profile.layers[id].parameter_count > 0;
    const auto time = [&](LayerPass pass) { return known_time(id.value, pass); };
    for (LayerCost& cost : profile.layers[id].costs) {
      cost.forward = time(LayerPass::forward);
      cost.backward_input = time(LayerPass::backward_input);
      cost.backward_weight = learns ? time(LayerPass::backward_weight) : Nanoseconds{};
      cost.optimizer = learns ? time(LayerPass::optimizer) : Nanoseconds{};
    }
  }
  return profile;
}

// `count` devices whose links take time: a tensor of 1 KiB about 1 us and the latency.
inline Cluster linked_cluster(std::int64_t count, Nanoseconds latency = Nanoseconds{700}) {
  Cluster cluster = ideal_cluster(count);
  cluster.nodes.front().link = {.bandwidth = BytesPerSecond{1'000'000'000}, .latency = latency};
  return cluster;
}

// Rows of ops, as "F0.0 X0.0", rank by rank.
inline Schedule hand_made(std::int64_t stages, std::int64_t micro_batches,
                          const std::vector<std::string>& rows) {
  Schedule schedule{.named = false, .stage_count = stages, .micro_batch_count = micro_batches};
  for (const std::string& row : rows) {
    std::vector<Op> ops;
    std::istringstream words(row);
    for (std::string word; words >> word;) ops.push_back(parse_op(word, "row").value());
    schedule.ranks.push_back(std::move(ops));
  }
  return schedule;
}

inline ExecuteOptions training_options() {
  ExecuteOptions options;
  options.backend = Backend::cuda;
  options.warm_ups = 2;
  options.iterations = 2;
  options.share_cores = true;
  return options;
}

inline Result<Execution> run_on(HostGpu& gpu, const ModelGraph& model, const Profile& profile,
                                const Plan& plan, const Schedule& schedule, const ExecuteOptions& options) {
  PIPEPLAN_TRY(costs, pipeline_costs(plan, profile, plan.cluster));
  return execute_on_gpu(model, schedule, plan, fit_to_order(costs, order_demand(schedule)), options, gpu);
}

inline Execution run_soundly(HostGpu& gpu, const ModelGraph& model, const Profile& profile, const Plan& plan,
                             const Schedule& schedule, const ExecuteOptions& options) {
  auto execution = run_on(gpu, model, profile, plan, schedule, options);
  if (!execution) FAIL(execution.error().where, ": ", execution.error().message);
  for (const std::string& misuse : gpu.misuses()) FAIL_CHECK(misuse);
  return std::move(*execution);
}

inline Timeline simulated(const Profile& profile, const Plan& plan, const Schedule& schedule) {
  const PipelineCosts costs = pipeline_costs(plan, profile, plan.cluster).value();
  return simulate(schedule, fit_to_order(costs, order_demand(schedule))).value();
}

// Everything, to the nanosecond and the byte.
inline void check_same(const Timeline& measured, const Timeline& predicted) {
  CHECK(measured.spans == predicted.spans);
  CHECK(measured.transfers == predicted.transfers);
  CHECK(measured.makespan == predicted.makespan);
  CHECK(measured.iteration == predicted.iteration);
  for (const RankId rank : ids<RankId>(predicted.memory.size())) {
    INFO("rank " << rank.value);
    CHECK(measured.memory[rank].peak == predicted.memory[rank].peak);
    CHECK(measured.memory[rank].peak_at == predicted.memory[rank].peak_at);
    CHECK(measured.memory[rank].peak_in_flight == predicted.memory[rank].peak_in_flight);
    CHECK(measured.memory[rank].steps == predicted.memory[rank].steps);
  }
}

inline void check_training(const Execution& execution, const ModelGraph& model, const Plan& plan,
                           const ExecuteOptions& options, double distance) {
  ExecuteOptions single_options = options;
  single_options.backend = Backend::cpu;
  const auto single = execute_single_stage(model, plan, single_options);
  REQUIRE(single.has_value());
  REQUIRE(execution.training.has_value());
  const Equivalence equivalence = compare_training(*execution.training, *single->training, model,
                                                   {.largest_distance_fraction = distance});
  CHECK_MESSAGE(equivalence.equal, equivalence.difference);
}

}  // namespace pipeplan::test
