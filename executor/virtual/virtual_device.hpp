#pragma once

// A worker on a virtual clock: commands take the time the costs say and nothing else, so that the engine's
// whole way through a program can be held against the simulator, op by op, without a thread or a layer.

#include <vector>

#include "executor/device.hpp"
#include "executor/memory_replay.hpp"
#include "executor/worker_links.hpp"

namespace pipeplan {

// When each command finished; shared by the devices of a run.
using VirtualEvents = std::vector<Nanoseconds>;

class VirtualDevice final : public Device {
 public:
  // `costs` and `events` outlive the device; `stages` are those of the worker's rank.
  VirtualDevice(WorkerId id, const std::vector<StageId>& stages, const PipelineCosts& costs,
                VirtualEvents& events);

  Result<void> begin_iteration(std::int64_t number) override;
  void enqueue(const Command& command) override;
  Result<void> wait_all() override { return {}; }
  [[nodiscard]] Result<std::vector<Stamp>> stamps() override { return stamps_; }
  [[nodiscard]] RankMemory memory() const override { return memory_.seen(); }

 private:
  Stamp run(const Command& command);
  Stamp send(const Command& command);

  const PipelineCosts& costs_;
  VirtualEvents& events_;
  MemoryReplay memory_;
  WorkerLinks links_;
  Nanoseconds clock_{};
  std::vector<Stamp> stamps_;
};

}  // namespace pipeplan
