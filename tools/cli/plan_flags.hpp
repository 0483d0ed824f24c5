#pragma once

// The flags that say what to plan for; plan and sweep share them.

#include <optional>
#include <string>

#include "planner/planner.hpp"
#include "tools/cli/artefact.hpp"

namespace CLI {
class App;
}

namespace pipeplan {

struct PlanFlags {
  std::string cluster, transfers = "overlapped", optimizer = "sgd", memory, algorithm = "chain-dp";
  std::optional<double> state_factor;
  std::string recompute = "none", recompute_mode = "fused";
  std::int64_t global_batch = 0;  // 0: not given
  std::int64_t data_parallel = 1;
  bool extrapolate = false;

  void declare(CLI::App& app);
  // All that these flags say; the caller adds stages, micro-batches, sizes and schedule.
  [[nodiscard]] Result<PlanOptions> options() const;
  // The cluster they name, or as many ideal devices as `stages` in all copies.
  [[nodiscard]] Result<Cluster> machine(std::int64_t stages) const;
  [[nodiscard]] bool assumes_machine() const { return cluster.empty(); }
};

// The simulated iteration and bubble of an answer's plan, written into its prediction.
Result<void> predict(Plan& plan, const Profile& profile, Extrapolation extrapolation);

}  // namespace pipeplan
