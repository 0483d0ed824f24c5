#include "executor/engine.hpp"

#include <algorithm>

#include "models/base/assert.hpp"

namespace pipeplan {
namespace {

// Moves everything so that the first op starts at 0.
void start_at_zero(Timeline& timeline) {
  if (timeline.spans.empty()) return;
  const auto first = std::ranges::min_element(timeline.spans, {}, &Span::start);
  const Nanoseconds origin = first->start;
  for (Span& span : timeline.spans) span.start -= origin, span.end -= origin;
  for (Transfer& transfer : timeline.transfers) transfer.start -= origin, transfer.end -= origin;
  for (RankMemory& memory : timeline.memory) {
    for (MemoryStep& step : memory.steps) step.at = std::max(step.at - origin, Nanoseconds::zero());
    memory.peak_at = std::max(memory.peak_at - origin, Nanoseconds::zero());
  }
  timeline.makespan -= origin;
  timeline.iteration -= origin;
}

}  // namespace

Engine::Engine(Program program, PerId<RankId, std::unique_ptr<Device>> devices,
               std::vector<Bytes> boundary_bytes)
    : program_(std::move(program)),
      devices_(std::move(devices)),
      boundary_bytes_(std::move(boundary_bytes)),
      enqueued_(program_.commands.size()) {
  PIPEPLAN_ASSERT(devices_.size() == program_.ranks.size());
}

IterationResult Engine::run_iteration(std::int64_t number) {
  for (auto& device : devices_) device->begin_iteration(number);
  enqueue_all();
  for (auto& device : devices_) device->wait_all();
  IterationResult result;
  for (const RankId rank : ids<RankId>(devices_.size())) collect(rank, result);
  start_at_zero(result.timeline);
  sort_events(result.timeline);
  return result;
}

bool Engine::ready(const Command& command) const {
  return std::ranges::all_of(command.waits, [&](CommandId id) { return enqueued_[id.index()]; });
}

void Engine::enqueue_all() {
  enqueued_.assign(enqueued_.size(), false);
  PerId<RankId, std::size_t> next(devices_.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (const RankId rank : ids<RankId>(devices_.size())) {
      const auto& order = program_.ranks[rank];
      for (; next[rank] < order.size(); ++next[rank]) {
        const Command& command = program_.commands[order[next[rank]].index()];
        if (!ready(command)) break;
        devices_[rank]->enqueue(command);
        enqueued_[command.id.index()] = moved = true;
      }
    }
  }
  PIPEPLAN_ASSERT(std::ranges::find(enqueued_, false) == enqueued_.end());
}

void Engine::collect(RankId rank, IterationResult& result) const {
  for (const Stamp& stamp : devices_[rank]->stamps()) place(rank, stamp, result);
  result.timeline.memory.push_back(devices_[rank]->memory());
}

void Engine::place(RankId rank, const Stamp& stamp, IterationResult& result) const {
  Timeline& timeline = result.timeline;
  const Command& command = program_.commands[stamp.command.index()];
  if (command.kind != CommandKind::send) timeline.iteration = std::max(timeline.iteration, stamp.end);
  if (command.kind == CommandKind::step) return;
  if (command.kind == CommandKind::compute) {
    timeline.spans.push_back({command.op, rank, stamp.start, stamp.end});
    timeline.makespan = std::max(timeline.makespan, stamp.end);
    result.load.wall += stamp.end - stamp.start;
    result.load.cpu += stamp.cpu;
    return;
  }
  const bool forward = command.op.kind == OpKind::forward;
  const StageId from = command.op.stage;
  const StageId to = forward ? from.next() : from.previous();
  timeline.transfers.push_back({.direction = forward ? Direction::forward : Direction::backward,
                                .from = from,
                                .to = to,
                                .micro_batch = command.op.micro_batch,
                                .start = stamp.start,
                                .end = stamp.end,
                                .bytes = boundary_bytes_.at(std::min(from, to).index())});
}

}  // namespace pipeplan
