#include "simulator/order_demand.hpp"

#include <algorithm>

#include "simulator/run_order.hpp"

namespace pipeplan {
namespace {

// Counts what is held while the ops of a row pass by.
struct Held {
  std::int64_t now = 0, peak = 0;
  void take() { peak = std::max(peak, ++now); }
  void give_back() { --now; }
};

void pass(Held& in_flight, OpKind kind) {
  if (kind == OpKind::forward) in_flight.take();
  if (releases_activations(kind)) in_flight.give_back();
}

void pass_split(Held& split, OpKind kind) {
  if (kind == OpKind::backward_input) split.take();
  if (kind == OpKind::backward_weight) split.give_back();
}

void add_peaks(const Schedule& schedule, OrderDemand& demand) {
  const auto stages = static_cast<std::size_t>(schedule.stage_count);
  PerId<StageId, Held> in_flight(stages), split(stages);
  for (const auto& row : schedule.ranks) {
    Held of_rank;
    for (const Op& op : row) {
      pass(of_rank, op.kind);
      pass(in_flight[op.stage], op.kind);
      pass_split(split[op.stage], op.kind);
    }
    demand.peak_in_flight.push_back(of_rank.peak);
  }
  for (const Held& held : in_flight) demand.stage_peak.push_back(held.peak);
  for (const Held& held : split) demand.stage_split_peak.push_back(held.peak);
}

// The order in which one stage starts its forwards and sends its gradients.
std::vector<Op> exchanges(const std::vector<Op>& row, StageId stage) {
  std::vector<Op> ops;
  for (const Op& op : row)
    if (op.stage == stage && (op.kind == OpKind::forward || sends_gradient(op.kind))) ops.push_back(op);
  return ops;
}

// The largest lead of `sender` over `receiver`. The sender's `sends` ops go to the receiver; the others wait
// for the receiver's op of the same kind, before which the receiver has taken in what stands before it in its
// own order.
std::int64_t largest_lead(const std::vector<Op>& sender, const std::vector<Op>& receiver,
                          std::size_t micro_batches, bool gradients) {
  const auto is_sent = [gradients](const Op& op) { return sends_gradient(op.kind) == gradients; };
  PerId<MicrobatchId, std::int64_t> taken_before(micro_batches);
  std::int64_t taken = 0;
  for (const Op& op : receiver) {
    if (is_sent(op))
      ++taken;
    else
      taken_before[op.micro_batch] = taken;
  }
  std::int64_t sent = 0, surely_taken = 0, lead = 0;
  for (const Op& op : sender) {
    if (is_sent(op))
      lead = std::max(lead, ++sent - surely_taken);
    else
      surely_taken = std::max(surely_taken, taken_before[op.micro_batch]);
  }
  return lead;
}

}  // namespace

OrderDemand order_demand(const Schedule& schedule) {
  OrderDemand demand;
  add_peaks(schedule, demand);
  const PerId<StageId, RankId> homes = stage_homes(schedule);
  const auto micro_batches = static_cast<std::size_t>(schedule.micro_batch_count);
  std::vector<Op> front = exchanges(schedule.ranks[homes[StageId{0}]], StageId{0});
  for (StageId stage{1}; stage != homes.end_id(); stage = stage.next()) {
    std::vector<Op> back = exchanges(schedule.ranks[homes[stage]], stage);
    demand.forward_lead.push_back(largest_lead(front, back, micro_batches, false));
    demand.backward_lead.push_back(largest_lead(back, front, micro_batches, true));
    front = std::move(back);
  }
  return demand;
}

PipelineCosts fit_to_order(PipelineCosts costs, const OrderDemand& demand) {
  PIPEPLAN_ASSERT(demand.forward_lead.size() == costs.boundaries.size());
  for (StageMemory& memory : costs.memory) memory.constant[MemoryItem::communication] = Bytes{};
  for (const StageId stage : ids<StageId>(costs.boundaries.size())) {
    BoundaryCosts& boundary = costs.boundaries[stage.index()];
    const std::int64_t forward = demand.forward_lead[stage.index()];
    const std::int64_t backward = demand.backward_lead[stage.index()];
    boundary.receive_buffers = std::max(forward, backward);
    costs.memory[stage].constant[MemoryItem::communication] += boundary.gradient_buffer * backward;
    costs.memory[stage.next()].constant[MemoryItem::communication] += boundary.activation_buffer * forward;
  }
  return costs;
}

}  // namespace pipeplan
