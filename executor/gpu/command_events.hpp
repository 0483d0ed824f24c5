#pragma once

// The events of a program's commands on GPU queues: two timing events round each, and one that orders other
// queues where a command of another worker waits for it. Made once, recorded again every iteration. All times
// are read against a clock that starts anew with each iteration, after the host has seen every queue idle.
//
// Each GPU counts from an event of its own, recorded at that moment: on one GPU all stamps are on one clock,
// between GPUs they are apart by what the host takes to enqueue two events (some microseconds).

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "executor/device.hpp"
#include "executor/program.hpp"
#include "models/layers/gpu_queue.hpp"

namespace pipeplan {

class GpuClock {
 public:
  // The queues that work between two starts; they outlive the clock.
  static Result<GpuClock> make(std::vector<GpuQueue*> queues);

  // Call while the queues are idle: the next start_once() starts the clock again.
  void rewind() { started_ = false; }
  // Before the first work of an iteration: no queue goes on before all GPUs have their base.
  void start_once();
  // Between the start and an event of `device` that has happened.
  [[nodiscard]] Result<Nanoseconds> at(const GpuEvent& event, std::int64_t device) const;

 private:
  struct Base {
    GpuQueue* queue = nullptr;  // the first on its GPU
    std::unique_ptr<GpuEvent> event;
  };
  std::vector<GpuQueue*> queues_;
  std::map<std::int64_t, Base> bases_;  // by GPU
  bool started_ = false;
};

class CommandEvents {
 public:
  // Of all commands of `program`; those of `command` are then made by `queue`, which records them alone.
  explicit CommandEvents(const Program& program);
  Result<void> make(CommandId command, GpuQueue& queue);

  // `queue` is on the GPU of the queue that made the events.
  void begin(CommandId command, GpuQueue& queue);
  void end(CommandId command, GpuQueue& queue);
  // What others wait for; only of commands in another's waits.
  [[nodiscard]] const GpuEvent& done(CommandId command) const;
  // Once the command has happened.
  [[nodiscard]] Result<Stamp> stamp(CommandId command, const GpuClock& clock) const;

 private:
  struct Events {
    std::int64_t device = 0;
    std::unique_ptr<GpuEvent> start, end, done;
  };
  std::vector<Events> events_;  // by command
  std::vector<bool> awaited_;
};

}  // namespace pipeplan
