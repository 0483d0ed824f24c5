#include "executor/memory_replay.hpp"

#include <algorithm>

namespace pipeplan {

MemoryReplay::MemoryReplay(const PerId<StageId, StageMemory>& memory, const std::vector<StageId>& stages)
    : memory_(memory) {
  Bytes reserved;
  for (const StageId stage : stages) {
    const MemoryUse& constant = memory_[stage].constant;
    reserved = std::max(reserved, constant[MemoryItem::reserved]);
    for (std::size_t i = 0; i < memory_item_count; ++i) constant_.items[i] += constant.items[i];
  }
  constant_[MemoryItem::reserved] = reserved;  // the device takes it once
}

void MemoryReplay::restart() {
  now_ = constant_;
  in_flight_ = 0;
  seen_ = {};
  note(Nanoseconds::zero());
}

void MemoryReplay::pass(const Op& op, Nanoseconds start, Nanoseconds end) {
  const StageMemory& stage = memory_[op.stage];
  const Bytes kept = stage.activation_per_micro_batch, deferred = stage.deferred_per_micro_batch;
  switch (op.kind) {
    case OpKind::forward: change(start, kept, +1); break;
    case OpKind::backward_input:
      if (deferred > Bytes{}) change(start, deferred, 0);
      break;
    case OpKind::backward_weight: change(end, Bytes{} - kept - deferred, -1); break;
    case OpKind::backward: change(end, Bytes{} - kept, -1); break;
    case OpKind::recompute: break;
  }
}

void MemoryReplay::change(Nanoseconds at, Bytes bytes, std::int64_t micro_batches) {
  now_[MemoryItem::activations] += bytes;
  in_flight_ += micro_batches;
  note(at);
}

void MemoryReplay::note(Nanoseconds at) {
  if (seen_.steps.empty() || now_.total() > seen_.peak.total()) {
    seen_.peak = now_;
    seen_.peak_at = at;
  }
  seen_.peak_in_flight = std::max(seen_.peak_in_flight, in_flight_);
  seen_.steps.push_back({.at = at, .bytes = now_.total(), .in_flight = in_flight_});
}

}  // namespace pipeplan
