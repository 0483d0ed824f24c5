#include "simulator/run_order.hpp"

namespace pipeplan {
namespace {

// Lets every rank go on as far as it can, and wakes the rank that may wait for what has just been done.
class Walk {
 public:
  explicit Walk(const Schedule& schedule)
      : schedule_(schedule),
        micro_batches_(static_cast<std::size_t>(schedule.micro_batch_count)),
        homes_(stage_homes(schedule)),
        forward_done_(homes_.size() * micro_batches_),
        gradient_done_(homes_.size() * micro_batches_),
        is_awake_(schedule.ranks.size()) {
    order_.reached = PerId<RankId, std::size_t>(schedule.ranks.size());
    std::size_t ops = 0;
    for (const auto& row : schedule.ranks) ops += row.size();
    order_.places.reserve(ops);
  }

  RunOrder run() {
    for (std::size_t rank = schedule_.ranks.size(); rank-- > 0;) wake(id_of<RankId>(rank));
    while (!awake_.empty()) {
      const RankId rank = awake_.back();
      awake_.pop_back();
      is_awake_[rank] = 0;
      advance(rank);
    }
    return std::move(order_);
  }

 private:
  void advance(RankId rank) {
    const auto& row = schedule_.ranks[rank];
    std::size_t& next = order_.reached[rank];
    for (; next < row.size() && can_run(row[next]); ++next) {
      order_.places.push_back({rank, static_cast<std::int32_t>(next)});
      finish(row[next]);
    }
  }

  void wake(RankId rank) {
    if (is_awake_[rank] == 0) awake_.push_back(rank);
    is_awake_[rank] = 1;
  }

  [[nodiscard]] bool can_run(const Op& op) const {
    const auto input = stage_input(op, schedule_.stage_count);
    if (!input) return true;
    return (input->gradient ? gradient_done_ : forward_done_)[cell(input->stage, op.micro_batch)] != 0;
  }

  void finish(const Op& op) {
    if (op.kind == OpKind::forward) {
      forward_done_[cell(op.stage, op.micro_batch)] = 1;
      if (op.stage.next() != homes_.end_id()) wake(homes_[op.stage.next()]);
    } else if (sends_gradient(op.kind)) {
      gradient_done_[cell(op.stage, op.micro_batch)] = 1;
      if (op.stage.value > 0) wake(homes_[op.stage.previous()]);
    }
  }

  [[nodiscard]] std::size_t cell(StageId stage, MicrobatchId k) const {
    return stage.index() * micro_batches_ + k.index();
  }

  const Schedule& schedule_;
  std::size_t micro_batches_;
  PerId<StageId, RankId> homes_;
  std::vector<char> forward_done_, gradient_done_;
  std::vector<RankId> awake_;
  PerId<RankId, char> is_awake_;
  RunOrder order_;
};

}  // namespace

std::optional<StageInput> stage_input(const Op& op, std::int64_t stage_count) {
  if (op.kind == OpKind::forward && op.stage.value > 0) return StageInput{op.stage.previous(), false};
  if (sends_gradient(op.kind) && op.stage.value + 1 < stage_count) return StageInput{op.stage.next(), true};
  return std::nullopt;
}

PerId<StageId, RankId> stage_homes(const Schedule& schedule) {
  PerId<StageId, RankId> homes(static_cast<std::size_t>(schedule.stage_count));
  for (const RankId rank : ids<RankId>(schedule.ranks.size()))
    for (const Op& op : schedule.ranks[rank]) homes[op.stage] = rank;
  return homes;
}

RunOrder run_order(const Schedule& schedule) { return Walk(schedule).run(); }

}  // namespace pipeplan
