#include "executor/executor.hpp"

#include <fmt/format.h>

#include <bit>

#include "executor/cpu/cpu_executor.hpp"
#include "executor/virtual/virtual_executor.hpp"

namespace pipeplan {
namespace {

Result<void> check_request(const ModelGraph& model, const Plan& plan, const ExecuteOptions& options) {
  if (model.layers().size() != plan.layer_names.size())
    return bad_input({},
                     fmt::format("the plan has {} layers, the network has {}", plan.layer_names.size(),
                                 model.layers().size()),
                     "plan again from the profile of this network");
  if (options.warm_ups < 1)
    return bad_usage(fmt::format("warm-up iterations are {}, wanted at least 1", options.warm_ups));
  if (options.iterations < 0)
    return bad_usage(fmt::format("iterations are {}, wanted at least 0", options.iterations));
  return {};
}

// The first place where two vectors differ in any bit, as text; empty if they are equal.
std::string first_difference(const std::string& what, const std::vector<float>& a,
                             const std::vector<float>& b) {
  if (a.size() != b.size()) return fmt::format("{}: {} and {} elements", what, a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    if (std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i]))
      return fmt::format("{}, element {}: {} and {}", what, i, a[i], b[i]);
  return {};
}

std::string find_difference(const TrainingRecord& a, const TrainingRecord& b, const ModelGraph& model) {
  if (std::string found = first_difference("losses", a.losses, b.losses); !found.empty()) return found;
  if (a.gradients.size() != b.gradients.size() || a.gradients.size() != model.layers().size())
    return fmt::format("{} and {} layers of gradients", a.gradients.size(), b.gradients.size());
  for (const LayerId layer : ids<LayerId>(model.layers().size())) {
    const std::string& name = model.layers()[layer].name;
    std::string found = first_difference("gradient of " + name, a.gradients[layer], b.gradients[layer]);
    if (found.empty())
      found = first_difference("parameters of " + name, a.parameters[layer], b.parameters[layer]);
    if (!found.empty()) return found;
  }
  return {};
}

// `plan` with all its layers in one stage, on its first device, without a memory limit.
Plan single_stage(const Plan& plan) {
  Plan single = plan;
  single.cluster = ideal_cluster(1);
  single.stages = {StagePlan{.first = LayerId{0}, .last = plan.layer_names.end_id().previous()}};
  return single;
}

}  // namespace

Result<Execution> execute(const ModelGraph& model, const Schedule& schedule, const Plan& plan,
                          const PipelineCosts& costs, const ExecuteOptions& options) {
  switch (options.backend) {
    case Backend::cpu:
      PIPEPLAN_CHECK(check_request(model, plan, options));
      return execute_on_cpu(model, schedule, plan, costs, options);
    case Backend::virtual_clock: return execute_virtually(schedule, costs);
  }
  PIPEPLAN_UNREACHABLE("a backend that is not dispatched");
}

Result<Execution> execute_single_stage(const ModelGraph& model, const Plan& plan, const Profile& profile,
                                       const ExecuteOptions& options) {
  const Plan single = single_stage(plan);
  PIPEPLAN_TRY(schedule, make_schedule(single));
  PIPEPLAN_TRY(costs, pipeline_costs(single, profile, single.cluster));
  return execute(model, schedule, single, costs, options);
}

Equivalence compare_training(const TrainingRecord& pipelined, const TrainingRecord& single,
                             const ModelGraph& model) {
  std::string difference = find_difference(pipelined, single, model);
  const bool equal = difference.empty();
  return {.equal = equal, .difference = std::move(difference)};
}

}  // namespace pipeplan
