#include "simulator/order_demand.hpp"

#include <algorithm>

#include "simulator/run_order.hpp"

namespace pipeplan {
namespace {

std::int64_t peak_of_row(const std::vector<Op>& row) {
  std::int64_t held = 0, peak = 0;
  for (const Op& op : row) {
    if (op.kind == OpKind::forward) peak = std::max(peak, ++held);
    if (releases_activations(op.kind)) --held;
  }
  return peak;
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
  for (const auto& row : schedule.ranks) demand.peak_in_flight.push_back(peak_of_row(row));

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

}  // namespace pipeplan
