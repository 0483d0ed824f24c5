#pragma once

// A worker that sleeps through its commands, each as long as the costs say: the timing of any number of
// stages on the wall clock of one small machine. Each command has a time at which it is due, counted from
// when what it needs was due; waking up late against that is made up for, so that the system's lateness does
// not add up along a pipeline, unless it is more than waking up takes.

#include <vector>

#include "executor/memory_replay.hpp"
#include "executor/threads/command_thread.hpp"

namespace pipeplan {

class SleepDevice final : public Device, private CommandRunner {
 public:
  // `costs` and `events` outlive the device; `stages` are those of the worker's rank.
  SleepDevice(WorkerId id, const std::vector<StageId>& stages, const PipelineCosts& costs,
              EventBoard& events);

  Result<void> begin_iteration(std::int64_t number) override;
  void enqueue(const Command& command) override { thread_.enqueue(command); }
  Result<void> wait_all() override;
  // Time that a command takes beyond what it was given counts as taken by other work.
  [[nodiscard]] Result<std::vector<Stamp>> stamps() override;
  [[nodiscard]] RankMemory memory() const override { return memory_.seen(); }

 private:
  Nanoseconds run(const Command& command, Nanoseconds available) override;
  void note(const Command& command, const Stamp& stamp) override;

  const PipelineCosts& costs_;
  MemoryReplay memory_;
  Nanoseconds due_{};               // when the last command was to end
  std::vector<Nanoseconds> given_;  // per stamp
  CommandThread thread_;
};

}  // namespace pipeplan
