#include "planner/window_costs.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "models/base/assert.hpp"
#include "planner/memory.hpp"

namespace pipeplan {
namespace {

constexpr std::int64_t no_bytes_yet = std::numeric_limits<std::int64_t>::max();

}  // namespace

RangeMaximum::RangeMaximum(const std::vector<std::int64_t>& values) : levels_{values} {
  for (std::size_t half = 1; 2 * half <= values.size(); half *= 2) {
    const std::vector<std::int64_t>& below = levels_.back();
    std::vector<std::int64_t> level(values.size() - 2 * half + 1);
    for (std::size_t i = 0; i < level.size(); ++i) level[i] = std::max(below[i], below[i + half]);
    levels_.push_back(std::move(level));
  }
}

std::int64_t RangeMaximum::largest(std::int64_t first, std::int64_t end) const {
  const auto width = static_cast<std::size_t>(end - first);
  const auto level = static_cast<std::size_t>(std::bit_width(width) - 1);
  const std::vector<std::int64_t>& maxima = levels_[level];
  return std::max(maxima[static_cast<std::size_t>(first)],
                  maxima[static_cast<std::size_t>(end) - (std::size_t{1} << level)]);
}

WindowCosts::WindowCosts(const SplitProblem& problem)
    : table_(*problem.table), state_factor_(state_factor(problem.state)), workspace_(table_.workspace) {
  PIPEPLAN_ASSERT(1 <= problem.stages && problem.stages <= layers());
  PIPEPLAN_ASSERT(static_cast<std::int64_t>(problem.devices.size()) == problem.stages);
  PIPEPLAN_ASSERT(static_cast<std::int64_t>(problem.links.size()) == problem.stages - 1);
  for (std::int64_t stage = 0; stage < problem.stages; ++stage) terms_.push_back(stage_terms(problem, stage));
  if (problem.transfers == TransferMode::overlapped) time_links(problem);
}

WindowCosts::StageTerms WindowCosts::stage_terms(const SplitProblem& problem, std::int64_t stage) const {
  const DeviceType& device = problem.devices[static_cast<std::size_t>(stage)];
  const auto buffers = [&](std::int64_t boundary) {
    if (boundary < 0 || boundary + 1 == problem.stages) return std::int64_t{0};
    return receive_buffers(problem.schedule, problem.stages, problem.micro_batch_count, boundary);
  };
  StageTerms terms{Ratio(device.speed_factor),
                   device.reserved.value,
                   device.memory ? device.memory->value : std::numeric_limits<std::int64_t>::max(),
                   in_flight(problem.schedule, problem.stages, problem.micro_batch_count, stage),
                   buffers(stage - 1),
                   buffers(stage),
                   0,
                   0,
                   0};
  bracket_cuts(terms, stage, problem.stages);
  return terms;
}

// The cheapest and the dearest that the cuts at a window's ends can be.
void WindowCosts::bracket_cuts(StageTerms& terms, std::int64_t stage, std::int64_t stages) const {
  const auto add = [&](const auto& bytes_at) {
    std::int64_t least = no_bytes_yet, most = 0;
    for (std::int64_t cut = 1; cut < layers(); ++cut) {
      least = std::min(least, bytes_at(cut));
      most = std::max(most, bytes_at(cut));
    }
    terms.least_at_cuts += least;
    terms.most_at_cuts += most;
  };
  if (stage > 0) add([&](std::int64_t cut) { return bytes_before(terms, cut); });
  if (stage + 1 < stages) add([&](std::int64_t cut) { return terms.receive_out * cut_bytes(cut); });
}

void WindowCosts::time_links(const SplitProblem& problem) {
  std::vector<Link> kinds;
  for (std::size_t stage = 0; stage < problem.links.size(); ++stage) {
    const Link& link = problem.links[stage];
    const auto known = std::find(kinds.begin(), kinds.end(), link);
    terms_[stage].link = static_cast<std::size_t>(known - kinds.begin());
    if (known != kinds.end()) continue;
    kinds.push_back(link);
    std::vector<std::int64_t>& times = link_times_.emplace_back();
    for (const std::int64_t bytes : table_.cut_bytes)
      times.push_back(link_busy_time(link, Bytes{bytes}).count());
  }
}

std::int64_t WindowCosts::memory_between_cuts(std::int64_t stage, std::int64_t first,
                                              std::int64_t end) const {
  const StageTerms& own = terms(stage);
  return own.reserved + state_factor_.multiply_up(at(table_.parameter, end) - at(table_.parameter, first)) +
         workspace_.largest(first, end) + at(table_.rerun_activation, end) -
         at(table_.rerun_activation, first) +
         own.in_flight * (at(table_.activation, end) - at(table_.activation, first));
}

std::int64_t WindowCosts::memory(std::int64_t stage, std::int64_t first, std::int64_t end) const {
  const StageTerms& own = terms(stage);
  return memory_between_cuts(stage, first, end) + bytes_before(own, first) + own.receive_out * cut_bytes(end);
}

std::int64_t WindowCosts::link_time(std::int64_t stage, std::int64_t cut) const {
  return link_times_.empty() ? 0 : at(link_times_[terms(stage).link], cut);
}

std::int64_t WindowCosts::slowest(const std::vector<std::int64_t>& bounds) const {
  std::int64_t slowest = 0;
  for (std::int64_t stage = 0; stage < stages(); ++stage) {
    slowest = std::max(slowest, time(stage, at(bounds, stage), at(bounds, stage + 1)));
    if (stage + 1 < stages()) slowest = std::max(slowest, link_time(stage, at(bounds, stage + 1)));
  }
  return slowest;
}

std::int64_t WindowCosts::largest_memory(const std::vector<std::int64_t>& bounds) const {
  std::int64_t largest = 0;
  for (std::int64_t stage = 0; stage < stages(); ++stage)
    largest = std::max(largest, memory(stage, at(bounds, stage), at(bounds, stage + 1)));
  return largest;
}

}  // namespace pipeplan
