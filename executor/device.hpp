#pragma once

// What runs the commands of one worker. The engine enqueues commands in an order in which everything a
// command waits for has been enqueued before; a device runs its own commands in that order, each after its
// waits, and stamps them on one clock common to all devices of a run.

#include <span>
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

// The numbers of one stage: of one replica, since all hold the same.
struct StageValues {
  std::vector<std::vector<float>> parameters;       // per layer
  std::vector<std::vector<float>> optimizer_state;  // per layer, empty for plain gradient descent
};

class Device {
 public:
  virtual ~Device() = default;
  // Before the commands of iteration `number` (from 0); the device is idle then.
  virtual Result<void> begin_iteration(std::int64_t number) = 0;
  // Asynchronous; `command` stays where it is until the iteration has ended. All ids in `command.waits` have
  // been enqueued, here or on another device of the run.
  virtual void enqueue(const Command& command) = 0;
  // Returns when everything enqueued has finished, or with what went wrong.
  virtual Result<void> wait_all() = 0;
  // The stamps since the iteration began, in command order.
  [[nodiscard]] virtual Result<std::vector<Stamp>> stamps() = 0;
  // What was held when, since the iteration began; on the clock of the stamps.
  [[nodiscard]] virtual RankMemory memory() const = 0;
};

// A device that trains. Call these while it is idle.
class TrainingDevice : public Device {
 public:
  // Losses of the last iteration by micro-batch, of this worker's samples; empty without the loss layer.
  [[nodiscard]] virtual std::vector<float> losses() const = 0;
  // Whether each iteration keeps a copy of its gradients, taken before the step.
  virtual void keep_gradients(bool keep) = 0;
  // Of a stage of this worker, per layer.
  [[nodiscard]] virtual std::vector<std::vector<float>> gradients(StageId stage) const = 0;
  [[nodiscard]] virtual Result<StageValues> values(StageId stage) = 0;
  virtual Result<void> set_values(StageId stage, const StageValues& values) = 0;
};

}  // namespace pipeplan
