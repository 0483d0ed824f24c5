#pragma once

// Random orders that are legal by construction and that channels can carry: all stages take the micro-batches
// forward in one common order and backward in another.

#include <algorithm>
#include <numeric>
#include <vector>

#include "simulator/schedule.hpp"
#include "tests/support/random.hpp"

namespace pipeplan::test {

// How a stage goes back.
enum class BackwardForm { fused, split, recomputed };

struct OrderShape {
  std::int64_t ranks = 1;
  std::int64_t micro_batches = 1;
  std::vector<BackwardForm> stages;  // stage s lives on rank s mod ranks
  bool shuffled = true;              // else ascending, and W in the order of B
};

// Runs ops that are ready in a random sequence and notes them on their ranks.
class QueuedOrder {
 public:
  QueuedOrder(Random& random, const OrderShape& shape)
      : random_(random), shape_(shape), stages_(shape.stages.size()) {
    forwards_.resize(static_cast<std::size_t>(shape.micro_batches));
    std::iota(forwards_.begin(), forwards_.end(), 0);
    backwards_ = forwards_;
    if (!shape.shuffled) return;
    shuffle(forwards_);
    shuffle(backwards_);
  }

  Schedule make() {
    Schedule schedule{.named = false,
                      .stage_count = static_cast<std::int64_t>(stages_.size()),
                      .micro_batch_count = shape_.micro_batches};
    schedule.ranks = PerId<RankId, std::vector<Op>>(static_cast<std::size_t>(shape_.ranks));
    for (std::vector<Op> ready = ready_ops(); !ready.empty(); ready = ready_ops()) {
      const Op op =
          ready[static_cast<std::size_t>(random_.between(0, static_cast<std::int64_t>(ready.size()) - 1))];
      finish(op);
      const auto rank = static_cast<std::size_t>(op.stage.value % shape_.ranks);
      schedule.ranks[id_of<RankId>(rank)].push_back(op);
    }
    return schedule;
  }

 private:
  struct Stage {
    std::size_t forwards = 0, backwards = 0;  // done, in the common orders
    std::vector<std::int32_t> unweighted;     // micro-batches that wait for their W
    bool recomputed = false;                  // the next backward, by an R
  };

  void shuffle(std::vector<std::int32_t>& order) {
    for (std::size_t i = order.size(); i > 1; --i)
      std::swap(order[i - 1],
                order[static_cast<std::size_t>(random_.between(0, static_cast<std::int64_t>(i) - 1))]);
  }

  [[nodiscard]] bool forward_done(std::size_t stage, std::int32_t k) const {
    const auto end = forwards_.begin() + static_cast<std::ptrdiff_t>(stages_[stage].forwards);
    return std::find(forwards_.begin(), end, k) != end;
  }

  [[nodiscard]] std::vector<Op> ready_ops() const {
    std::vector<Op> ready;
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      add_forward(s, ready);
      add_backward(s, ready);
      for (const std::int32_t k : stages_[s].unweighted) {
        ready.push_back({OpKind::backward_weight, id_of<StageId>(s), MicrobatchId{k}});
        if (!shape_.shuffled) break;
      }
    }
    return ready;
  }

  // What an R has computed must still be there for the backward.
  void add_forward(std::size_t s, std::vector<Op>& ready) const {
    const Stage& stage = stages_[s];
    if (stage.forwards == forwards_.size() || stage.recomputed) return;
    if (s > 0 && stages_[s - 1].forwards <= stage.forwards) return;
    ready.push_back({OpKind::forward, id_of<StageId>(s), MicrobatchId{forwards_[stage.forwards]}});
  }

  void add_backward(std::size_t s, std::vector<Op>& ready) const {
    const Stage& stage = stages_[s];
    if (stage.backwards == backwards_.size()) return;
    const std::int32_t k = backwards_[stage.backwards];
    if (!forward_done(s, k)) return;
    const BackwardForm form = shape_.stages[s];
    if (form == BackwardForm::recomputed && !stage.recomputed)
      ready.push_back({OpKind::recompute, id_of<StageId>(s), MicrobatchId{k}});
    if (s + 1 < stages_.size() && stages_[s + 1].backwards <= stage.backwards) return;
    const OpKind kind = form == BackwardForm::split ? OpKind::backward_input : OpKind::backward;
    ready.push_back({kind, id_of<StageId>(s), MicrobatchId{k}});
  }

  void finish(const Op& op) {
    Stage& stage = stages_[op.stage.index()];
    switch (op.kind) {
      case OpKind::forward: ++stage.forwards; break;
      case OpKind::recompute: stage.recomputed = true; break;
      case OpKind::backward_weight: std::erase(stage.unweighted, op.micro_batch.value); break;
      case OpKind::backward_input: stage.unweighted.push_back(op.micro_batch.value); [[fallthrough]];
      case OpKind::backward:
        ++stage.backwards;
        stage.recomputed = false;
        break;
    }
  }

  Random& random_;
  const OrderShape& shape_;
  std::vector<Stage> stages_;
  std::vector<std::int32_t> forwards_, backwards_;  // the common orders
};

inline Schedule queued_order(Random& random, const OrderShape& shape) {
  return QueuedOrder(random, shape).make();
}

// The same order with every X as B and W, the W after the rank's next op.
inline Schedule with_split_backwards(const Schedule& schedule) {
  Schedule split = schedule;
  split.named = false;
  for (auto& row : split.ranks) {
    std::vector<Op> ops;
    std::vector<Op> owed;
    for (const Op& op : row) {
      const bool backward = op.kind == OpKind::backward;
      ops.push_back(backward ? Op{OpKind::backward_input, op.stage, op.micro_batch} : op);
      ops.insert(ops.end(), owed.begin(), owed.end());
      owed.clear();
      if (backward) owed.push_back({OpKind::backward_weight, op.stage, op.micro_batch});
    }
    ops.insert(ops.end(), owed.begin(), owed.end());
    row = std::move(ops);
  }
  return split;
}

}  // namespace pipeplan::test
