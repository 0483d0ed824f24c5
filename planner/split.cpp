#include "planner/split.hpp"

#include <algorithm>

#include "models/base/assert.hpp"
#include "planner/memory.hpp"

namespace pipeplan {
namespace {

std::int64_t stage_peak(const SplitProblem& problem, const std::vector<std::int64_t>& bounds,
                        std::int64_t stage) {
  const std::int64_t held = in_flight(problem.schedule, problem.stages, problem.micro_batch_count, stage);
  return peak_memory(split_memory(problem, bounds, stage), held).value;
}

std::int64_t stage_time(const SplitProblem& problem, const std::vector<std::int64_t>& bounds,
                        std::int64_t stage) {
  const auto at = static_cast<std::size_t>(stage);
  return problem.table->stage_times(bounds[at], bounds[at + 1], problem.devices[at].speed_factor)
      .per_micro_batch()
      .count();
}

double fastest_speed(const SplitProblem& problem) {
  double fastest = 0;
  for (const DeviceType& device : problem.devices) fastest = std::max(fastest, device.speed_factor);
  return fastest;
}

}  // namespace

StageMemory split_memory(const SplitProblem& problem, const std::vector<std::int64_t>& bounds,
                         std::int64_t stage) {
  const auto at = static_cast<std::size_t>(stage);
  return stage_memory(*problem.table, bounds[at], bounds[at + 1], stage, problem.stages, problem.schedule,
                      problem.micro_batch_count, problem.state, problem.devices[at]);
}

SplitScore score_split(const SplitProblem& problem, std::vector<std::int64_t> bounds) {
  PIPEPLAN_ASSERT(static_cast<std::int64_t>(bounds.size()) == problem.stages + 1);
  SplitScore score;
  for (std::int64_t stage = 0; stage < problem.stages; ++stage) {
    score.slowest_ns = std::max(score.slowest_ns, stage_time(problem, bounds, stage));
    score.largest_memory = std::max(score.largest_memory, stage_peak(problem, bounds, stage));
    if (stage + 1 == problem.stages) break;
    const auto at = static_cast<std::size_t>(stage);
    const Bytes crossing{problem.table->cut_bytes[static_cast<std::size_t>(bounds[at + 1])]};
    score.transfer_bytes += crossing.value;
    if (problem.transfers == TransferMode::overlapped)
      score.slowest_ns = std::max(score.slowest_ns, link_busy_time(problem.links[at], crossing).count());
  }
  score.bounds = std::move(bounds);
  return score;
}

bool fits(const SplitProblem& problem, const std::vector<std::int64_t>& bounds) {
  for (std::int64_t stage = 0; stage < problem.stages; ++stage) {
    const auto& limit = problem.devices[static_cast<std::size_t>(stage)].memory;
    if (limit && stage_peak(problem, bounds, stage) > limit->value) return false;
  }
  return true;
}

std::int64_t largest_layer_time(const SplitProblem& problem) {
  const Ratio speed(fastest_speed(problem));
  std::int64_t largest = 0;
  for (std::int64_t layer = 0; layer < problem.table->layer_count; ++layer)
    largest = std::max(largest, problem.table->stage_time(layer, layer + 1, speed));
  return largest;
}

std::int64_t even_share_time(const SplitProblem& problem) {
  const std::int64_t total =
      problem.table->stage_time(0, problem.table->layer_count, Ratio(fastest_speed(problem)));
  return total / problem.stages + (total % problem.stages != 0 ? 1 : 0);
}

std::int64_t trivial_bound(const SplitProblem& problem) {
  return std::max(even_share_time(problem), largest_layer_time(problem));
}

}  // namespace pipeplan
