#include "simulator/simulate.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "simulator/check_schedule.hpp"
#include "simulator/memory_steps.hpp"
#include "simulator/order_demand.hpp"

namespace pipeplan {
namespace {

__extension__ using Wide = __int128;

// Runs the ops of a checked schedule one by one; each must come after everything that it waits for.
class LongestPath {
 public:
  LongestPath(const Schedule& schedule, const PipelineCosts& costs)
      : schedule_(schedule),
        costs_(costs),
        micro_batches_(static_cast<std::size_t>(schedule.micro_batch_count)),
        homes_(stage_homes(schedule)),
        rank_free_(schedule.ranks.size()),
        output_there_(homes_.size() * micro_batches_),
        gradient_there_(homes_.size() * micro_batches_),
        recomputed_(homes_.size() * micro_batches_),
        forward_link_free_(costs.boundaries.size()),
        backward_link_free_(costs.boundaries.size()) {
    std::size_t ops = 0;
    for (const auto& row : schedule.ranks) ops += row.size();
    timeline_.spans.reserve(ops);
  }

  void run(OpPlace place) {
    const Op& op = schedule_.ranks[place.rank][static_cast<std::size_t>(place.position)];
    const Nanoseconds start = std::max(rank_free_[place.rank], input_there(op));
    const bool apart = recomputed_[cell(op.stage, op.micro_batch)] != 0;
    const Nanoseconds end = start + op_time(op.kind, costs_.times[op.stage], apart);
    rank_free_[place.rank] = end;
    timeline_.spans.push_back({op, place.rank, start, end});
    if (op.kind == OpKind::recompute) recomputed_[cell(op.stage, op.micro_batch)] = 1;
    if (op.kind == OpKind::forward && op.stage.next() != homes_.end_id()) send_output(op, end);
    if (sends_gradient(op.kind) && op.stage.value > 0) send_gradient(op, end);
  }

  Timeline take_timeline() {
    sort_events(timeline_);
    add_ends();
    timeline_.memory = memory_steps(timeline_.spans, schedule_.ranks.size(), costs_.memory);
    return std::move(timeline_);
  }

 private:
  // When the input from another stage is there; what comes from the own stage is, since the rank is free.
  [[nodiscard]] Nanoseconds input_there(const Op& op) const {
    const auto input = stage_input(op, schedule_.stage_count);
    if (!input) return Nanoseconds{0};
    return (input->gradient ? gradient_there_ : output_there_)[cell(input->stage, op.micro_batch)];
  }

  void send_output(const Op& op, Nanoseconds ready) {
    output_there_[cell(op.stage, op.micro_batch)] =
        send(Direction::forward, op, op.stage.next(), op.stage.index(), ready, forward_link_free_);
  }
  void send_gradient(const Op& op, Nanoseconds ready) {
    const StageId to = op.stage.previous();
    gradient_there_[cell(op.stage, op.micro_batch)] =
        send(Direction::backward, op, to, to.index(), ready, backward_link_free_);
  }

  // Ops come in their sender's order, and so do the transfers on each link.
  Nanoseconds send(Direction direction, const Op& op, StageId to, std::size_t boundary, Nanoseconds ready,
                   std::vector<Nanoseconds>& link_free) {
    if (homes_[op.stage] == homes_[to]) return ready;
    const BoundaryCosts& costs = costs_.boundaries[boundary];
    const Passage passage = pass_link(costs_.transfers, costs, ready, link_free[boundary]);
    timeline_.transfers.push_back(
        {direction, op.stage, to, op.micro_batch, passage.start, passage.end, costs.bytes});
    return passage.end;
  }

  void add_ends() {
    PerId<RankId, Nanoseconds> steps(schedule_.ranks.size());
    for (const StageId stage : ids<StageId>(homes_.size()))
      steps[homes_[stage]] += costs_.times[stage].all_reduce + costs_.times[stage].optimizer;
    for (const RankId rank : ids<RankId>(schedule_.ranks.size())) {
      timeline_.makespan = std::max(timeline_.makespan, rank_free_[rank]);
      timeline_.iteration = std::max(timeline_.iteration, rank_free_[rank] + steps[rank]);
    }
  }

  [[nodiscard]] std::size_t cell(StageId stage, MicrobatchId k) const {
    return stage.index() * micro_batches_ + k.index();
  }

  const Schedule& schedule_;
  const PipelineCosts& costs_;
  std::size_t micro_batches_;
  PerId<StageId, RankId> homes_;
  PerId<RankId, Nanoseconds> rank_free_;
  std::vector<Nanoseconds> output_there_, gradient_there_;           // at the neighbour, by sending stage
  std::vector<char> recomputed_;                                     // by an R op
  std::vector<Nanoseconds> forward_link_free_, backward_link_free_;  // by boundary
  Timeline timeline_;
};

Result<void> check_stage_counts(const Schedule& schedule, const PipelineCosts& costs) {
  const auto stages = static_cast<std::size_t>(schedule.stage_count);
  if (costs.times.size() != stages || costs.memory.size() != stages || costs.boundaries.size() + 1 != stages)
    return bad_input("schedule#/ranks", fmt::format("an order of {} stages, wanted {} as in the plan", stages,
                                                    costs.times.size()));
  return {};
}

std::vector<bool> recomputing_stages(const PipelineCosts& costs) {
  std::vector<bool> recomputing;
  for (const StageId stage : ids<StageId>(costs.times.size()))
    recomputing.push_back(recomputes(costs, stage));
  return recomputing;
}

// No path through the timeline is longer than all its ops and transfers together, and no rank holds more than
// all its micro-batches at once: if those sums fit, nothing overflows.
Result<void> check_sums(const Schedule& schedule, const PipelineCosts& costs) {
  const Wide micro_batches = schedule.micro_batch_count;
  Wide time = 0, memory = 0;
  for (const StageTimes& times : costs.times)
    time +=
        micro_batches * times.per_micro_batch().count() + times.all_reduce.count() + times.optimizer.count();
  if (costs.transfers != TransferMode::ignored)
    for (const BoundaryCosts& boundary : costs.boundaries)
      time += 2 * micro_batches *
              (Wide{link_busy_time(boundary.link, boundary.bytes).count()} + boundary.link.latency.count());
  for (const StageMemory& stage : costs.memory)
    memory += stage.constant.total().value + micro_batches * (Wide{stage.activation_per_micro_batch.value} +
                                                              stage.deferred_per_micro_batch.value);
  if (time > largest_total_time.count())
    return bad_input("",
                     fmt::format("times of the iteration add up to over {} ns (146 years): is a unit wrong?",
                                 largest_total_time.count()));
  if (memory > largest_total_time.count())
    return bad_input("", fmt::format("memory of all stages adds up to over {} bytes: is a unit wrong?",
                                     largest_total_time.count()));
  return {};
}

}  // namespace

Result<Timeline> simulate(const Schedule& schedule, const PipelineCosts& costs) {
  PIPEPLAN_TRY(order, checked_run_order(schedule));
  PIPEPLAN_CHECK(check_stage_counts(schedule, costs));
  PIPEPLAN_CHECK(check_recomputation(schedule, recomputing_stages(costs)));
  PIPEPLAN_CHECK(check_sums(schedule, costs));
  LongestPath engine(schedule, costs);
  for (const OpPlace place : order.places) engine.run(place);
  return engine.take_timeline();
}

Result<Timeline> simulate(const Schedule& schedule, const Plan& plan, const Profile& profile,
                          const Cluster& cluster) {
  PIPEPLAN_TRY(costs, pipeline_costs(plan, profile, cluster));
  PIPEPLAN_CHECK(check_schedule(schedule));
  PIPEPLAN_CHECK(check_order_of(plan, schedule));
  return simulate(schedule, fit_to_order(costs, order_demand(schedule)));
}

Nanoseconds op_time(OpKind kind, const StageTimes& times, bool recomputed_apart) {
  const Nanoseconds again = recomputed_apart ? Nanoseconds{0} : times.recompute;
  switch (kind) {
    case OpKind::forward: return times.forward;
    case OpKind::recompute: return times.recompute;
    case OpKind::backward_input: return times.backward_input + again;
    case OpKind::backward_weight: return times.backward_weight;
    case OpKind::backward: return times.backward() + again;
  }
  PIPEPLAN_UNREACHABLE("an op without a time");
}

bool recomputes(const PipelineCosts& costs, StageId stage) {
  return costs.times[stage].recompute > Nanoseconds{0} ||
         costs.memory[stage].constant[MemoryItem::activations] > Bytes{0};
}

Passage pass_link(TransferMode mode, const BoundaryCosts& boundary, Nanoseconds ready,
                  Nanoseconds& link_free) {
  if (mode == TransferMode::ignored) return {ready, ready};
  const Nanoseconds busy = link_busy_time(boundary.link, boundary.bytes);
  const Nanoseconds start = mode == TransferMode::overlapped ? std::max(ready, link_free) : ready;
  link_free = start + busy;
  return {start, start + busy + boundary.link.latency};
}

}  // namespace pipeplan
