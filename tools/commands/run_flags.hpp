#pragma once

// The flags of run that say how to execute: backend, training, partitions and checkpoints.

#include <optional>
#include <string>

#include "executor/executor.hpp"
#include "planner/plan.hpp"

namespace CLI {
class App;
}

namespace pipeplan {

struct RunFlags {
  void declare(CLI::App& app);
  // All that these flags say for `plan`; contradictions are refused.
  [[nodiscard]] Result<ExecuteOptions> options(const Plan& plan) const;

 private:
  [[nodiscard]] Result<void> check_numbers() const;
  [[nodiscard]] Result<std::optional<CheckpointOptions>> checkpoints(bool trains) const;

  std::string backend_ = "cpu", partitions_;
  std::int64_t iterations_ = 15, warm_ups_ = 5;
  double learning_rate_ = 0.1;
  bool share_cores_ = false, emulate_links_ = false;
  std::string checkpoint_folder_;
  std::int64_t checkpoint_every_ = 0, keep_ = 0;
  bool resume_ = false;
};

// Whether a backend trains, or only passes time.
bool trains(Backend backend);

}  // namespace pipeplan
