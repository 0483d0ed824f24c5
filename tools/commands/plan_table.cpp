#include "tools/commands/plan_table.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "planner/memory.hpp"
#include "tools/cli/table.hpp"

namespace pipeplan {
namespace {

std::string layer_range(const Plan& plan, const StagePlan& stage) {
  const std::string& first = plan.layer_names[stage.first];
  const std::string& last = plan.layer_names[stage.last];
  const std::int64_t count = stage.last.value - stage.first.value + 1;
  return first == last ? fmt::format("{} (1)", first) : fmt::format("{} … {} ({})", first, last, count);
}

std::string memory_of_limit(Bytes needed, const std::optional<Bytes>& limit) {
  if (!limit) return fmt::format("{} of unlimited", display(needed));
  const double share =
      limit->value == 0 ? 1 : static_cast<double>(needed.value) / static_cast<double>(limit->value);
  return fmt::format("{} of {} ({:.0f} %)", display(needed), display(*limit), 100 * share);
}

// Long lists are cut: "0,4,8,12 … (64)".
std::string device_list(const StagePlan& stage) {
  constexpr std::size_t most = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(stage.devices.size(), most); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ",", stage.devices[i].value);
  return stage.devices.size() <= most ? text : fmt::format("{} … ({})", text, stage.devices.size());
}

// How many workers there are of each stage and what is recomputed, where that is anything.
std::string extent(const Plan& plan) {
  std::string text;
  if (plan.data_parallel > 1) text += fmt::format(", {} copies", plan.data_parallel);
  std::size_t recomputed = 0;
  for (const StagePlan& stage : plan.stages) recomputed += stage.recompute.size();
  if (recomputed > 0)
    text += fmt::format(", {} of {} layers recomputed ({})", recomputed, plan.layer_names.size(),
                        spelt(plan.recompute_mode));
  return text;
}

std::string sent_bytes(const PipelineCosts& costs, StageId stage) {
  return stage.index() < costs.boundaries.size() ? display(costs.boundaries[stage.index()].bytes) : "";
}

std::string objective_lines(const Plan& plan) {
  const Objective& objective = plan.objective;
  std::string text = fmt::format("slowest stage   {} per micro-batch\n", display(objective.value));
  text +=
      objective.optimal()
          ? fmt::format("lower bound     {}, gap 0: optimal among contiguous splits of this layer order\n",
                        display(objective.lower_bound))
          : fmt::format("lower bound     {}, gap {:.1f} %\n", display(objective.lower_bound),
                        100 * objective.gap_fraction());
  return text + fmt::format("trivial bound   {} (total time over stages, or the largest layer)\n",
                            display(objective.trivial_bound));
}

std::string prediction_line(const Plan& plan) {
  if (!plan.prediction.iteration || !plan.prediction.bubble_fraction) return {};
  return fmt::format("simulated       iteration {}, bubble fraction {:.1f} % (idle over total)\n",
                     display(*plan.prediction.iteration), 100 * *plan.prediction.bubble_fraction);
}

}  // namespace

std::string plan_table(const Plan& plan, const PipelineCosts& costs) {
  Table table({{"stage"},
               {"layers", Table::Align::left},
               {"device"},
               {"forward"},
               {"backward"},
               {"time"},
               {"slack"},
               {"in flight"},
               {"memory at peak", Table::Align::left},
               {"sends"}});
  for (const StageId stage : ids<StageId>(plan.stages.size())) {
    const StageTimes& times = costs.times[stage];
    const std::int64_t held =
        in_flight(plan.schedule, plan.stage_count(), plan.micro_batch_count, plan.stages[stage].rank.value);
    const Bytes peak = peak_memory(costs.memory[stage], held);
    table.add({fmt::format("{}", stage.value), layer_range(plan, plan.stages[stage]),
               device_list(plan.stages[stage]), display(times.forward),
               display(times.backward() + times.recompute), display(times.per_micro_batch()),
               display(plan.objective.value - times.per_micro_batch()), fmt::format("{}", held),
               memory_of_limit(peak, costs.memory[stage].limit), sent_bytes(costs, stage)});
  }
  return fmt::format(
      "{}: {} stages on {}, {} x {} samples, schedule {}, transfers {}, optimizer {}{}\n\n{}\n{}{}",
      plan.model, plan.stages.size(), plan.cluster.name, plan.micro_batch_count, plan.micro_batch_size,
      spelt(plan.schedule), spelt(plan.transfers), spelt(plan.state.optimizer), extent(plan), table.text(),
      objective_lines(plan), prediction_line(plan));
}

std::string memory_items(const MemoryUse& use) {
  std::string text;
  for (const auto& entry : spellings(MemoryItem{})) {
    if (use[entry.value].value == 0) continue;
    std::string name(entry.text);
    std::ranges::replace(name, '_', ' ');
    text += fmt::format("{}{} {}", text.empty() ? "" : " + ", name, display(use[entry.value]));
  }
  return text.empty() ? "nothing" : text;
}

std::string infeasible_text(const Infeasible& infeasible, const Profile& profile) {
  return fmt::format(
      "no plan on {} stages fits in memory\n"
      "tightest stage  {} (layers {} … {}): needs {}, its device has {}\n"
      "                {}\n"
      "would work      with {} ({} bytes) on every device\n",
      infeasible.stage_count, infeasible.tightest_stage.value, profile.layers[infeasible.first].name,
      profile.layers[infeasible.last].name, display(infeasible.needed.total()), display(infeasible.limit),
      memory_items(infeasible.needed), display(infeasible.smallest_memory), infeasible.smallest_memory.value);
}

}  // namespace pipeplan
