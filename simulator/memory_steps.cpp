#include "simulator/memory_steps.hpp"

#include <algorithm>

namespace pipeplan {
namespace {

// One rank's memory while its ops pass by.
class Replay {
 public:
  void add_stage(const StageMemory& stage) {
    const Bytes reserved = std::max(use_[MemoryItem::reserved], stage.constant[MemoryItem::reserved]);
    for (std::size_t i = 0; i < memory_item_count; ++i) use_.items[i] += stage.constant.items[i];
    use_[MemoryItem::reserved] = reserved;
  }

  void begin() { note(Nanoseconds{0}); }

  void pass(const Span& span, const StageMemory& stage) {
    const Bytes activation = stage.activation_per_micro_batch, deferred = stage.deferred_per_micro_batch;
    switch (span.op.kind) {
      case OpKind::forward: return change(span.start, activation, 1);
      case OpKind::backward: return change(span.end, Bytes{-activation.value}, -1);
      case OpKind::backward_input:
        if (deferred > Bytes{0}) change(span.start, deferred, 0);
        return;
      case OpKind::backward_weight: return change(span.end, Bytes{-(activation + deferred).value}, -1);
      case OpKind::recompute: return;
    }
  }

  RankMemory take() { return std::move(memory_); }

 private:
  void change(Nanoseconds at, Bytes bytes, std::int64_t micro_batches) {
    use_[MemoryItem::activations] += bytes;
    in_flight_ += micro_batches;
    note(at);
  }

  void note(Nanoseconds at) {
    const Bytes total = use_.total();
    if (memory_.steps.empty() || total > memory_.peak.total()) {
      memory_.peak = use_;
      memory_.peak_at = at;
    }
    memory_.peak_in_flight = std::max(memory_.peak_in_flight, in_flight_);
    memory_.steps.push_back({at, total, in_flight_});
  }

  MemoryUse use_;
  std::int64_t in_flight_ = 0;
  RankMemory memory_;
};

}  // namespace

PerId<RankId, RankMemory> memory_steps(const std::vector<Span>& spans, std::size_t rank_count,
                                       const PerId<StageId, StageMemory>& memory) {
  PerId<RankId, Replay> replays(rank_count);
  PerId<StageId, char> placed(memory.size());
  for (const Span& span : spans) {
    if (placed[span.op.stage] != 0) continue;
    placed[span.op.stage] = 1;
    replays[span.rank].add_stage(memory[span.op.stage]);
  }
  for (Replay& replay : replays) replay.begin();
  for (const Span& span : spans) replays[span.rank].pass(span, memory[span.op.stage]);

  PerId<RankId, RankMemory> ranks;
  for (Replay& replay : replays) ranks.push_back(replay.take());
  return ranks;
}

}  // namespace pipeplan
