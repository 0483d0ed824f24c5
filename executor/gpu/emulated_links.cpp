#include "executor/gpu/emulated_links.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "executor/command_time.hpp"

namespace pipeplan {

Result<EmulatedLinks> EmulatedLinks::open(const Program& program, const PipelineCosts& costs,
                                          const PerId<WorkerId, GpuQueue*>& queues) {
  EmulatedLinks links;
  if (costs.transfers == TransferMode::ignored) return links;
  for (const WorkerId worker : ids<WorkerId>(program.workers.size()))
    for (const CommandId id : program.order[worker]) {
      const Command& command = program.commands[id.index()];
      if (command.kind != CommandKind::send || command.target == worker) continue;
      const std::size_t boundary = crossed_boundary(command.op);
      const BoundaryCosts& crossed = costs.boundaries.at(boundary);
      if (link_busy_time(crossed.link, crossed.bytes) + crossed.link.latency == Nanoseconds::zero()) continue;
      const Port port{worker, boundary, sends_gradient(command.op.kind)};
      links.ports_.emplace(id, port);
      if (links.lanes_.contains(port)) continue;
      PIPEPLAN_TRY(lane, make_lane(*queues[worker], crossed, costs.transfers,
                                   fmt::format("link from worker {}, boundary {}", worker.value, boundary)));
      links.lanes_.emplace(port, std::move(lane));
    }
  return links;
}

Result<EmulatedLinks::Lane> EmulatedLinks::make_lane(GpuQueue& owner, const BoundaryCosts& boundary,
                                                     TransferMode mode, const std::string& name) {
  Lane lane{.busy = link_busy_time(boundary.link, boundary.bytes), .latency = boundary.link.latency};
  std::int64_t flights = flight_limit;
  if (mode == TransferMode::overlapped) {
    PIPEPLAN_TRY(carrier, owner.make_sibling(name));
    PIPEPLAN_TRY(passed, carrier->make_event(EventUse::ordering));
    lane.carrier = std::move(carrier);
    lane.passed = std::move(passed);
    const std::int64_t busy = std::max<std::int64_t>(lane.busy.count(), 1);
    flights = std::min((lane.latency.count() + busy - 1) / busy, flight_limit);
  }
  for (std::int64_t i = 0; i < flights; ++i) {
    PIPEPLAN_TRY(flight, owner.make_sibling(fmt::format("{}, flight {}", name, i)));
    lane.flights.push_back(std::move(flight));
  }
  return lane;
}

GpuQueue* EmulatedLinks::recorder(CommandId send) const {
  const auto port = ports_.find(send);
  if (port == ports_.end()) return nullptr;
  const Lane& lane = lanes_.at(port->second);
  return lane.carrier ? lane.carrier.get() : lane.flights.front().get();
}

void EmulatedLinks::restart() {
  for (auto& [port, lane] : lanes_) lane.last.reset();
}

GpuQueue& EmulatedLinks::take_flight(Lane& lane) {
  return *lane.flights[lane.next_flight++ % lane.flights.size()];
}

void EmulatedLinks::pass(const Command& send, const GpuEvent& copied, CommandEvents& events) {
  Lane& lane = lanes_.at(ports_.at(send.id));
  if (lane.last == send.op) {
    lane.arrived_on->wait(copied);
    events.begin(send.id, *lane.arrived_on);
  } else {
    depart(lane, send, copied, events);
  }
  events.end(send.id, *lane.arrived_on);
}

void EmulatedLinks::depart(Lane& lane, const Command& send, const GpuEvent& copied, CommandEvents& events) {
  lane.last = send.op;
  lane.arrived_on = lane.carrier ? lane.carrier.get() : &take_flight(lane);
  lane.arrived_on->wait(copied);
  events.begin(send.id, *lane.arrived_on);
  lane.arrived_on->idle(lane.busy);
  if (lane.carrier && !lane.flights.empty()) {
    lane.carrier->record(*lane.passed);
    lane.arrived_on = &take_flight(lane);
    lane.arrived_on->wait(*lane.passed);
  }
  lane.arrived_on->idle(lane.latency);
}

Result<void> EmulatedLinks::synchronize() {
  Result<void> outcome;
  const auto meet = [&](GpuQueue& queue) {
    if (Result<void> met = queue.synchronize(); !met && outcome) outcome = std::move(met);
  };
  for (auto& [port, lane] : lanes_) {
    if (lane.carrier) meet(*lane.carrier);
    for (auto& flight : lane.flights) meet(*flight);
  }
  return outcome;
}

}  // namespace pipeplan
