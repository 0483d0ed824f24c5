#include "planner/plan_warnings.hpp"

#include <fmt/format.h>

#include <map>

namespace pipeplan {
namespace {

constexpr std::int64_t small_micro_batch_size = 4;  // GPipe's advice (Huang et al. 2019)

std::optional<Warning> few_micro_batches(const Plan& plan) {
  if (plan.micro_batch_count >= plan.stage_count()) return std::nullopt;
  return Warning{WarningCode::few_micro_batches,
                 fmt::format("{} micro-batches for {} stages: most of the pipeline idles",
                             plan.micro_batch_count, plan.stage_count()),
                 fmt::format("use {} micro-batches or more", 4 * plan.stage_count())};
}

std::optional<Warning> small_micro_batch(const Plan& plan, const Profile& profile) {
  const std::vector<std::int64_t> sizes = profiled_sizes(profile);
  if (plan.micro_batch_size >= small_micro_batch_size || sizes.empty() ||
      sizes.back() <= plan.micro_batch_size)
    return std::nullopt;
  return Warning{WarningCode::small_micro_batch,
                 fmt::format("micro-batch size {} is below {}: devices may be poorly used",
                             plan.micro_batch_size, small_micro_batch_size),
                 fmt::format("the profile has costs up to micro-batch size {}", sizes.back())};
}

std::optional<Warning> branching_model(const Plan& plan, const Profile& profile) {
  if (profile.single_order || plan.stage_count() == 1) return std::nullopt;
  return Warning{
      WarningCode::branching_model,
      fmt::format(
          "'{}' branches: the bounds hold among contiguous splits of the given order of its {} layers",
          profile.model, profile.layers.size()),
      {}};
}

// Each stage that uses a tied tensor holds a copy, as its layers' bytes say; the sum of the copies' gradients
// is not planned.
std::optional<Warning> tied_parameters(const Plan& plan, const Profile& profile) {
  std::map<std::string, StageId> home;
  for (const StageId stage : ids<StageId>(plan.stages.size()))
    for (LayerId layer = plan.stages[stage].first; layer <= plan.stages[stage].last; layer = layer.next()) {
      const auto& tied = profile.layers[layer].tied;
      if (!tied || home.emplace(*tied, stage).first->second == stage) continue;
      return Warning{
          WarningCode::tied_parameters,
          fmt::format("tied parameters '{}' lie on stages {} and {}: the time to sum their gradients is not "
                      "in the plan",
                      *tied, home[*tied].value, stage.value),
          {}};
    }
  return std::nullopt;
}

// The stage that is the slowest and has one layer only, where that layer alone keeps the bound above an even
// share.
std::optional<Warning> indivisible_layer(const Plan& plan, const SplitProblem& problem) {
  const std::int64_t value = plan.objective.value.count();
  if (plan.stage_count() == 1 || value != largest_layer_time(problem) || value <= even_share_time(problem))
    return std::nullopt;
  for (const StagePlan& stage : plan.stages) {
    if (stage.first != stage.last) continue;
    const StageTimes times = problem.table->stage_times(stage.first.value, stage.last.value + 1,
                                                        problem.devices[stage.rank.index()].speed_factor);
    if (times.per_micro_batch() != plan.objective.value) continue;
    return Warning{WarningCode::indivisible_layer,
                   fmt::format("layer '{}' alone takes {} and sets the slowest stage",
                               plan.layer_names[stage.first], display(plan.objective.value)),
                   "more stages cannot help; split the layer or make it cheaper"};
  }
  return std::nullopt;
}

}  // namespace

std::vector<Warning> plan_warnings(const Plan& plan, const Profile& profile, const SplitProblem& problem) {
  std::vector<Warning> warnings;
  for (auto& warning :
       {few_micro_batches(plan), small_micro_batch(plan, profile), branching_model(plan, profile),
        indivisible_layer(plan, problem), tied_parameters(plan, profile)})
    if (warning) warnings.push_back(*warning);
  for (Warning& warning : profile_warnings(profile)) warnings.push_back(std::move(warning));
  return warnings;
}

}  // namespace pipeplan
