#pragma once

// A part of a GPU as an in-order queue: a whole device, a green context (a disjoint set of its SMs), or a
// plain stream that shares all SMs with others. The plug-in for CUDA implements it; everything that only
// orders work is written against this face, and tests stand a queue on the CPU behind it.
//
// One host thread drives all queues of a run. Calls enqueue and return; the first failure is kept (call,
// layer, pass, queue, device), later calls then do nothing, and synchronize() returns it.

#include <memory>
#include <string>
#include <vector>

#include "models/base/units.hpp"
#include "models/layers/processor.hpp"

namespace pipeplan {

enum class PartitionKind { device, green, streams };

constexpr auto spellings(PartitionKind) {
  using enum PartitionKind;
  return std::to_array<Spelling<PartitionKind>>({{device, "device"}, {green, "green"}, {streams, "streams"}});
}

// What a queue was granted.
struct GpuPart {
  std::int64_t device = 0;
  std::string device_name;
  PartitionKind kind = PartitionKind::device;
  std::int64_t sm_count = 0;         // read back from the driver, not what was asked for
  std::int64_t device_sm_count = 0;  // of the whole device
};

// A point in a queue, recorded again every iteration.
class GpuEvent {
 public:
  virtual ~GpuEvent() = default;
};

enum class EventUse { ordering, timing };

// Hears of the work of each layer and pass as it is enqueued: how kernels find their layer.
class LaunchObserver {
 public:
  virtual ~LaunchObserver() = default;
  virtual void begin_launch(const LaunchLabel& label) = 0;
  virtual void end_launch() = 0;
};

class GpuQueue : public Processor {
 public:
  [[nodiscard]] virtual const GpuPart& part() const = 0;

  // A queue beside this one on the same part, for copies that overlap its work.
  virtual Result<std::unique_ptr<GpuQueue>> make_sibling(const std::string& name) = 0;

  virtual Result<std::unique_ptr<GpuEvent>> make_event(EventUse use) = 0;
  virtual void record(GpuEvent& event) = 0;
  // What is enqueued from here on starts after the last record of `event`, made on any queue.
  virtual void wait(const GpuEvent& event) = 0;
  // Between two timing events that have happened.
  [[nodiscard]] virtual Result<Nanoseconds> elapsed(const GpuEvent& from, const GpuEvent& to) const = 0;

  // In this queue's order: `count` scalars of its memory to `to` in the memory of `target`'s device.
  virtual void send(const float* from, GpuQueue& target, float* to, std::int64_t count) = 0;
  // Lets the queue do nothing for so long: an emulated link.
  virtual void idle(Nanoseconds duration) = 0;

  // Null: nobody listens.
  virtual void set_observer(LaunchObserver* observer) = 0;

  // Waits until all that was enqueued has happened; the first failure since the last call.
  virtual Result<void> synchronize() = 0;

  // Most bytes that this queue's memory pool has held, as the driver counts them.
  [[nodiscard]] virtual Result<Bytes> pool_high_water() const = 0;

  // The numbers of the SMs that kernels of this queue run on, ascending, found by running one that fills them
  // all: shows whether parts are disjoint. Waits for it. Empty where a queue has no SMs.
  virtual Result<std::vector<std::int64_t>> sm_numbers() { return std::vector<std::int64_t>(); }
};

}  // namespace pipeplan
