#pragma once

// --synthetic: a pipeline from a handful of numbers, so that anyone can play with a schedule without a model.

#include <string>
#include <vector>

#include "planner/cost.hpp"
#include "simulator/schedule.hpp"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace pipeplan {

struct SyntheticFlags {
  bool wanted = false;
  std::int64_t stages = 4, micro_batches = 8;
  std::string schedule = "1f1b", transfers = "uncontended";
  std::string forward = "1us", backward, backward_input, backward_weight, recompute = "0ns",
              optimizer = "0ns";
  std::string latency = "0ns", bandwidth, boundary_bytes = "0B", activation_bytes = "0B";

  struct Pipeline {
    Schedule schedule;
    PipelineCosts costs;
  };

  void declare(CLI::App& app);
  [[nodiscard]] Result<Pipeline> read() const;
  // The first of these flags that was given, for who does not want any; empty if none was.
  [[nodiscard]] std::string first_given() const;

 private:
  std::vector<const CLI::Option*> options_;
  [[nodiscard]] Result<std::vector<Nanoseconds>> times(const std::string& text, const char* flag) const;
  [[nodiscard]] Result<PerId<StageId, StageTimes>> stage_times() const;
  [[nodiscard]] Result<BoundaryCosts> boundary() const;
};

}  // namespace pipeplan
