#pragma once

// A rank on a virtual clock: commands take the time the costs say and nothing else, so that the engine's
// whole way through a program can be held against the simulator, op by op, without a thread or a layer.

#include <memory>
#include <vector>

#include "executor/device.hpp"
#include "planner/cost.hpp"

namespace pipeplan {

// When each command finished; shared by the devices of a run.
using VirtualEvents = std::vector<Nanoseconds>;

class VirtualDevice : public Device {
 public:
  // `costs` and `events` outlive the device; `rank` runs stage `rank`.
  VirtualDevice(StageId stage, const PipelineCosts& costs, VirtualEvents& events);

  void begin_iteration(std::int64_t number) override;
  void enqueue(const Command& command) override;
  void wait_all() override {}
  [[nodiscard]] std::vector<Stamp> stamps() const override { return stamps_; }
  [[nodiscard]] RankMemory memory() const override { return memory_; }

 private:
  Stamp run(const Command& command);
  Stamp send(const Command& command);
  void hold(Nanoseconds at, std::int64_t change);

  StageId stage_;
  const PipelineCosts& costs_;
  VirtualEvents& events_;
  Nanoseconds clock_{};
  Nanoseconds forward_link_free_{}, backward_link_free_{};
  std::vector<Stamp> stamps_;
  RankMemory memory_;
  std::int64_t in_flight_ = 0;
};

}  // namespace pipeplan
