#pragma once

// Makes tensors arrive no sooner than over the plan's links: after the real copy, a queue beside the sender's
// idles for as long as the link takes, and receivers wait for that. All parts of an op's result pass as one
// tensor and are there together, as the costs of a boundary have it. Under overlapped transfers a carrier
// queue lets one tensor pass at a time; latency then runs on up to `flight_limit` queues in turn, so that a
// link with more tensors than that between its ends is slower than the simulated one.

#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "executor/gpu/command_events.hpp"
#include "planner/cost.hpp"

namespace pipeplan {

class EmulatedLinks {
 public:
  static constexpr std::int64_t flight_limit = 4;

  // Links for all sends of `program` that take time under `costs`; `queues` by worker.
  static Result<EmulatedLinks> open(const Program& program, const PipelineCosts& costs,
                                    const PerId<WorkerId, GpuQueue*>& queues);

  // A queue on the GPU whose queues record the events of `send`; null where no link delays it.
  [[nodiscard]] GpuQueue* recorder(CommandId send) const;
  // Before the sends of an iteration.
  void restart();
  // Lets `send` pass once `copied` has happened; sends in their worker's order.
  void pass(const Command& send, const GpuEvent& copied, CommandEvents& events);
  Result<void> synchronize();

 private:
  using Port = std::tuple<WorkerId, std::size_t, bool>;  // sender, boundary, gradient
  struct Lane {
    Nanoseconds busy{}, latency{};
    std::unique_ptr<GpuQueue> carrier;  // null: tensors do not wait for each other
    std::unique_ptr<GpuEvent> passed;   // the carrier's last tensor
    std::vector<std::unique_ptr<GpuQueue>> flights;
    std::size_t next_flight = 0;
    std::optional<Op> last;          // whose result passed last
    GpuQueue* arrived_on = nullptr;  // where it arrived
  };

  static Result<Lane> make_lane(GpuQueue& owner, const BoundaryCosts& boundary, TransferMode mode,
                                const std::string& name);
  static GpuQueue& take_flight(Lane& lane);
  static void depart(Lane& lane, const Command& send, const GpuEvent& copied, CommandEvents& events);

  std::map<Port, Lane> lanes_;
  std::map<CommandId, Port> ports_;  // of the sends that a link delays
};

}  // namespace pipeplan
