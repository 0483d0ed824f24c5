#pragma once

// Small networks, plans and pipelines for the executor's tests.

#include <vector>

#include "models/zoo/zoo.hpp"
#include "planner/planner.hpp"
#include "profiler/profiler.hpp"
#include "tests/support/random.hpp"

namespace pipeplan::test {

inline ModelGraph small_transformer() {
  return build_model(TransformerSpec{
                         .blocks = 2, .hidden = 16, .heads = 2, .sequence = 8, .vocabulary = 11, .seed = 3})
      .value();
}

inline ModelGraph small_mlp() {
  return build_model(MlpSpec{.inputs = 6, .width = 20, .layers = 3, .outputs = 4, .seed = 5}).value();
}

// A profile with one sample per layer: its sizes are exact, its times are not looked at.
inline Profile quick_profile(const ModelGraph& model, const std::vector<std::int64_t>& micro_batch_sizes) {
  ProfileOptions options;
  options.micro_batch_sizes = micro_batch_sizes;
  options.stopping.warm_ups = 0;
  options.stopping.least = options.stopping.most = 1;
  return profile_model(model, options).value().profile;
}

inline Profile quick_profile(const ModelGraph& model, std::int64_t micro_batch_size) {
  return quick_profile(model, std::vector{micro_batch_size});
}

inline Plan even_plan(const Profile& profile, std::int64_t stages, std::int64_t micro_batches,
                      ScheduleKind schedule) {
  PlanOptions options;
  options.algorithm = Algorithm::even_split;
  options.fewest_stages = options.most_stages = stages;
  options.micro_batch_count = micro_batches;
  options.schedule = schedule;
  return make_plan(profile, ideal_cluster(stages), options).value().plan;
}

// Stages of any times, memory and links.
inline PipelineCosts random_costs(Random& random, std::int64_t stages) {
  PipelineCosts costs;
  costs.transfers = std::vector{TransferMode::ignored, TransferMode::uncontended,
                                TransferMode::overlapped}[static_cast<std::size_t>(random.between(0, 2))];
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    costs.times.push_back({.forward = Nanoseconds{random.between(0, 50)},
                           .backward_input = Nanoseconds{random.between(0, 50)},
                           .backward_weight = Nanoseconds{random.between(0, 50)},
                           .optimizer = Nanoseconds{random.between(0, 200)}});
    StageMemory memory;
    memory.constant[MemoryItem::weights] = Bytes{random.between(0, 100)};
    memory.activation_per_micro_batch = Bytes{random.between(0, 30)};
    costs.memory.push_back(memory);
    if (stage + 1 == stages) break;
    BoundaryCosts boundary{.bytes = Bytes{random.between(0, 1000)},
                           .link = {.bandwidth = {}, .latency = Nanoseconds{random.between(0, 40)}}};
    if (random.coin()) boundary.link.bandwidth = BytesPerSecond{random.between(1, 100) * 1'000'000'000};
    costs.boundaries.push_back(boundary);
  }
  return costs;
}

}  // namespace pipeplan::test
