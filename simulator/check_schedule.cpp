#include "simulator/check_schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>

namespace pipeplan {
namespace {

// Collects what is wrong and keeps the first of it.
class Faults {
 public:
  void add(const std::string& where, const std::string& message) {
    if (++count_ == 1) first_ = Error{ErrorCode::bad_input, message, where, {}};
  }
  [[nodiscard]] Result<void> result() const {
    if (count_ == 0) return {};
    Error error = *first_;
    if (count_ > 1)
      error.message += fmt::format(" (and {} more {})", count_ - 1, count_ == 2 ? "fault" : "faults");
    return Failure(error);
  }

 private:
  std::int64_t count_ = 0;
  std::optional<Error> first_;
};

// Where each op of each stage and micro-batch stands, and whether all of them are there and in an order of
// their own.
class RowCheck {
 public:
  RowCheck(const Schedule& schedule, const std::string& where)
      : schedule_(schedule),
        where_(where),
        micro_batches_(static_cast<std::size_t>(schedule.micro_batch_count)),
        homes_(static_cast<std::size_t>(schedule.stage_count)),
        pairs_(homes_.size() * micro_batches_) {}

  Result<void> run() {
    for (const RankId rank : ids<RankId>(schedule_.ranks.size())) note_row(rank);
    for (const RankId rank : ids<RankId>(schedule_.ranks.size())) check_recomputed(rank);
    for (const StageId stage : ids<StageId>(homes_.size()))
      for (const MicrobatchId k : ids<MicrobatchId>(micro_batches_)) {
        check_presence(stage, k);
        check_row_order(stage, k);
      }
    return faults_.result();
  }

 private:
  static constexpr std::int32_t absent = -1;
  static constexpr std::size_t all_op_kinds = spellings(OpKind{}).size();
  // Position in the row of the stage's rank, by kind.
  struct Pair {
    std::array<std::int32_t, all_op_kinds> at{absent, absent, absent, absent, absent};
  };

  void note_row(RankId rank) {
    const auto& row = schedule_.ranks[rank];
    if (row.empty())
      faults_.add(place(rank), fmt::format("rank {} has no ops, wanted a stage on every rank", rank.value));
    for (std::size_t i = 0; i < row.size(); ++i) note_op(rank, i);
  }

  void note_op(RankId rank, std::size_t position) {
    const Op& op = schedule_.ranks[rank][position];
    if (op.stage.value < 0 || op.stage >= homes_.end_id())
      return fault(rank, position, fmt::format("stage {}, wanted one of {}", op.stage.value, homes_.size()));
    if (op.micro_batch.value < 0 || op.micro_batch.index() >= micro_batches_)
      return fault(rank, position,
                   fmt::format("micro-batch {}, wanted one of {}", op.micro_batch.value, micro_batches_));
    auto& home = homes_[op.stage];
    if (home.value_or(rank) != rank)
      return fault(rank, position,
                   fmt::format("stage {} is on rank {} already, wanted each stage on one rank",
                               op.stage.value, home->value));
    home = rank;
    std::int32_t& at = position_of(op);
    if (at != absent) return fault(rank, position, fmt::format("is doubled, it was op {} already", at + 1));
    at = static_cast<std::int32_t>(position);
  }

  void check_presence(StageId stage, MicrobatchId k) {
    using enum OpKind;
    const auto there = [&](OpKind kind) { return position_of({kind, stage, k}) != absent; };
    const auto missing = [&](OpKind kind, std::string_view reason) {
      faults_.add(place_of_stage(stage), fmt::format("{} is missing{}", op_text({kind, stage, k}), reason));
    };
    if (!there(forward)) missing(forward, "");
    const bool input = there(backward_input), weight = there(backward_weight);
    if (there(backward) && (input || weight)) {
      const Op beside{input ? backward_input : backward_weight, stage, k};
      fault_at(beside,
               fmt::format("stands beside {}, wanted X alone or B and W", op_text({backward, stage, k})));
    } else if (input != weight) {
      missing(input ? backward_weight : backward_input, input ? " beside its B" : " beside its W");
    } else if (!input && !there(backward)) {
      missing(backward, ", and so are B and W in its place");
    }
  }

  void check_row_order(StageId stage, MicrobatchId k) {
    using enum OpKind;
    const auto needs = [&](OpKind later, OpKind earlier) {
      const std::int32_t first = position_of({earlier, stage, k}), second = position_of({later, stage, k});
      if (first == absent || second == absent || first < second) return;
      fault_at({later, stage, k}, fmt::format("comes before {} (op {}), which it needs",
                                              op_text({earlier, stage, k}), first + 1));
    };
    needs(backward, forward);
    needs(backward_input, forward);
    needs(backward_weight, backward_input);
    needs(recompute, forward);
    needs(backward, recompute);
    needs(backward_input, recompute);
  }

  // All recomputed activations of a stage exist once, so a forward of another micro-batch would overwrite
  // what R has made for its X.
  void check_recomputed(RankId rank) {
    const auto& row = schedule_.ranks[rank];
    std::map<StageId, MicrobatchId> recomputed;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const auto held = recomputed.find(row[i].stage);
      const bool other = held != recomputed.end() && held->second != row[i].micro_batch;
      if (row[i].kind == OpKind::recompute && !other)
        recomputed[row[i].stage] = row[i].micro_batch;
      else if (other && row[i].kind != OpKind::backward_weight)
        fault(rank, i,
              fmt::format("overwrites what {} has recomputed for its X, wanted that X before it",
                          op_text({OpKind::recompute, row[i].stage, held->second})));
      else if (held != recomputed.end() && sends_gradient(row[i].kind))
        recomputed.erase(held);
    }
  }

  void fault(RankId rank, std::size_t position, const std::string& message) {
    const auto& row = schedule_.ranks[rank];
    faults_.add(fmt::format("{}/{}", place(rank), position),
                fmt::format("rank {}, op {} of {}, {}: {}", rank.value, position + 1, row.size(),
                            op_text(row[position]), message));
  }
  void fault_at(const Op& op, const std::string& message) {
    fault(*homes_[op.stage], static_cast<std::size_t>(position_of(op)), message);
  }

  [[nodiscard]] std::string place(RankId rank) const {
    return fmt::format("{}#/ranks/{}", where_, rank.value);
  }
  [[nodiscard]] std::string place_of_stage(StageId stage) const {
    return homes_[stage] ? place(*homes_[stage]) : where_ + "#/ranks";
  }
  std::int32_t& position_of(const Op& op) {
    return pairs_[op.stage.index() * micro_batches_ + op.micro_batch.index()]
        .at[static_cast<std::size_t>(op.kind)];
  }

  const Schedule& schedule_;
  const std::string& where_;
  std::size_t micro_batches_;
  PerId<StageId, std::optional<RankId>> homes_;
  std::vector<Pair> pairs_;
  Faults faults_;
};

// Counts that the rows cannot fill are refused before anything is sized by them.
Result<void> check_counts(const Schedule& schedule, const std::string& where) {
  const auto refuse = [&](std::string message) { return bad_input(where + "#/ranks", std::move(message)); };
  if (schedule.stage_count < 1 || schedule.micro_batch_count < 1)
    return refuse(fmt::format("an order of {} stages and {} micro-batches, wanted at least 1 of each",
                              schedule.stage_count, schedule.micro_batch_count));
  std::int64_t ops = 0;
  for (const auto& row : schedule.ranks) ops += static_cast<std::int64_t>(row.size());
  if (!checked_product(schedule.stage_count, schedule.micro_batch_count, ops))
    return refuse(fmt::format("{} ops for {} stages and {} micro-batches, wanted at least two for each pair",
                              ops, schedule.stage_count, schedule.micro_batch_count));
  return {};
}

// Who waits for whom where no rank can go on: every rank that is not through stands at an op whose input
// comes from another such rank, so going from one to the next leads into a cycle.
class Deadlock {
 public:
  Deadlock(const Schedule& schedule, const RunOrder& order)
      : schedule_(schedule), order_(order), homes_(stage_homes(schedule)) {}

  [[nodiscard]] Error error(const std::string& where) const {
    const std::vector<RankId> cycle = find_cycle();
    std::string text = "deadlock: ";
    for (const RankId rank : cycle) {
      const Op& input = waited_for(rank);
      const RankId next = homes_[input.stage];
      text += fmt::format("{} waits for {}", named(blocked(rank)), named(input));
      if (input != blocked(next)) text += fmt::format(" behind {}", named(blocked(next)));
      text += next == cycle.front() ? "" : "; ";
    }
    return {ErrorCode::bad_input,
            text,
            fmt::format("{}#/ranks/{}/{}", where, cycle.front().value, order_.reached[cycle.front()]),
            {}};
  }

 private:
  // The cycle, from its lowest rank on.
  [[nodiscard]] std::vector<RankId> find_cycle() const {
    RankId rank;
    while (through(rank)) rank = rank.next();
    PerId<RankId, char> seen(schedule_.ranks.size());
    for (; seen[rank] == 0; rank = homes_[waited_for(rank).stage]) seen[rank] = 1;
    std::vector<RankId> cycle;
    const RankId first = rank;
    do {
      cycle.push_back(rank);
      rank = homes_[waited_for(rank).stage];
    } while (rank != first);
    std::rotate(cycle.begin(), std::min_element(cycle.begin(), cycle.end()), cycle.end());
    return cycle;
  }

  [[nodiscard]] bool through(RankId rank) const {
    return order_.reached[rank] == schedule_.ranks[rank].size();
  }
  [[nodiscard]] const Op& blocked(RankId rank) const { return schedule_.ranks[rank][order_.reached[rank]]; }
  // The op whose result the rank waits for, somewhere ahead in its own rank's row.
  [[nodiscard]] const Op& waited_for(RankId rank) const {
    const Op& op = blocked(rank);
    const auto input = stage_input(op, schedule_.stage_count);
    PIPEPLAN_ASSERT(input.has_value());
    const auto& row = schedule_.ranks[homes_[input->stage]];
    const auto found = std::find_if(row.begin(), row.end(), [&](const Op& other) {
      return other.stage == input->stage && other.micro_batch == op.micro_batch &&
             (input->gradient ? sends_gradient(other.kind) : other.kind == OpKind::forward);
    });
    PIPEPLAN_ASSERT(found != row.end());
    return *found;
  }
  [[nodiscard]] std::string named(const Op& op) const {
    return fmt::format("rank {} {}", homes_[op.stage].value, op_text(op));
  }

  const Schedule& schedule_;
  const RunOrder& order_;
  PerId<StageId, RankId> homes_;
};

std::string op_place(const std::string& where, RankId rank, std::size_t position) {
  return fmt::format("{}#/ranks/{}/{}", where, rank.value, position);
}

}  // namespace

Result<void> check_schedule(const Schedule& schedule, const std::string& where) {
  PIPEPLAN_CHECK(checked_run_order(schedule, where));
  return {};
}

Result<void> check_recomputation(const Schedule& schedule, const std::vector<bool>& recomputing,
                                 const std::string& where) {
  for (const RankId rank : ids<RankId>(schedule.ranks.size()))
    for (std::size_t i = 0; i < schedule.ranks[rank].size(); ++i) {
      const Op& op = schedule.ranks[rank][i];
      const bool recomputes = recomputing[op.stage.index()];
      const bool split = op.kind == OpKind::backward_input || op.kind == OpKind::backward_weight;
      if (op.kind == OpKind::recompute && !recomputes)
        return bad_input(op_place(where, rank, i),
                         fmt::format("{}: stage {} recomputes nothing", op_text(op), op.stage.value));
      if (split && recomputes)
        return bad_input(op_place(where, rank, i),
                         fmt::format("{}: stage {} recomputes, so its backward cannot be split, wanted X",
                                     op_text(op), op.stage.value));
    }
  return {};
}

Result<void> check_order_of(const Plan& plan, const Schedule& schedule, const std::string& where) {
  if (schedule.stage_count != plan.stage_count() || schedule.micro_batch_count != plan.micro_batch_count)
    return bad_input(where, fmt::format("is an order of {} stages and {} micro-batches, wanted {} and {} as "
                                        "in the plan",
                                        schedule.stage_count, schedule.micro_batch_count, plan.stage_count(),
                                        plan.micro_batch_count));
  for (const RankId rank : ids<RankId>(schedule.ranks.size()))
    for (std::size_t i = 0; i < schedule.ranks[rank].size(); ++i) {
      const Op& op = schedule.ranks[rank][i];
      const RankId home = plan.stages[op.stage].rank;
      if (home != rank)
        return bad_input(op_place(where, rank, i),
                         fmt::format("{} stands on rank {}, but the plan has stage {} on rank {}",
                                     op_text(op), rank.value, op.stage.value, home.value));
    }
  std::vector<bool> recomputing;
  for (const StagePlan& stage : plan.stages) recomputing.push_back(!stage.recompute.empty());
  return check_recomputation(schedule, recomputing, where);
}

Result<RunOrder> checked_run_order(const Schedule& schedule, const std::string& where) {
  PIPEPLAN_CHECK(check_counts(schedule, where));
  PIPEPLAN_CHECK(RowCheck(schedule, where).run());
  RunOrder order = run_order(schedule);
  for (const RankId rank : ids<RankId>(schedule.ranks.size()))
    if (order.reached[rank] != schedule.ranks[rank].size())
      return Failure(Deadlock(schedule, order).error(where));
  return order;
}

}  // namespace pipeplan
