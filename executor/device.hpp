#pragma once

// What runs the ops of one rank. The engine enqueues commands in an order in which everything a command waits
// for has been enqueued before; a device runs its own commands in that order, each after its waits, and
// stamps them on one clock common to all devices of a run.

#include <vector>

#include "executor/program.hpp"
#include "models/base/units.hpp"
#include "simulator/timeline.hpp"

namespace pipeplan {

struct Stamp {
  CommandId command;
  Nanoseconds start{}, end{};
  Nanoseconds cpu{};  // thread CPU time between start and end, where the device has a thread
};

class Device {
 public:
  virtual ~Device() = default;
  // Before the commands of iteration `number`; the device is idle then.
  virtual void begin_iteration(std::int64_t number) = 0;
  // Asynchronous; `command` stays where it is until the iteration has ended. All ids in `command.waits` have
  // been enqueued, here or on another device of the run.
  virtual void enqueue(const Command& command) = 0;
  // Returns when everything enqueued has finished.
  virtual void wait_all() = 0;
  // The stamps since the iteration began, in command order.
  [[nodiscard]] virtual std::vector<Stamp> stamps() const = 0;
  // What was held when, since the iteration began; on the clock of the stamps.
  [[nodiscard]] virtual RankMemory memory() const = 0;
};

}  // namespace pipeplan
