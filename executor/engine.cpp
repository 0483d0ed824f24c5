#include "executor/engine.hpp"

#include <algorithm>
#include <map>

#include "models/base/assert.hpp"

namespace pipeplan {
namespace {

// Moves everything so that `origin`, the start of the first op of all workers, becomes 0.
void start_at_zero(Timeline& timeline, Nanoseconds origin) {
  for (Span& span : timeline.spans) span.start -= origin, span.end -= origin;
  for (Transfer& transfer : timeline.transfers) transfer.start -= origin, transfer.end -= origin;
  for (RankMemory& memory : timeline.memory) {
    for (MemoryStep& step : memory.steps) step.at = std::max(step.at - origin, Nanoseconds::zero());
    memory.peak_at = std::max(memory.peak_at - origin, Nanoseconds::zero());
  }
  timeline.makespan -= origin;
  timeline.iteration -= origin;
}

// Makes a span or transfer last over one more worker's part in it.
template<class Event>
void widen(Event& event, const Stamp& stamp) {
  event.start = std::min(event.start, stamp.start);
  event.end = std::max(event.end, stamp.end);
}

Transfer transfer_of(const Op& op, const std::vector<Bytes>& bytes) {
  const bool forward = op.kind == OpKind::forward;
  const StageId to = forward ? op.stage.next() : op.stage.previous();
  return {.direction = forward ? Direction::forward : Direction::backward,
          .from = op.stage,
          .to = to,
          .micro_batch = op.micro_batch,
          .start = Nanoseconds::max(),
          .end = Nanoseconds::min(),
          .bytes = bytes.at(std::min(op.stage, to).index())};
}

}  // namespace

std::vector<Bytes> boundary_bytes(const PipelineCosts& costs) {
  std::vector<Bytes> bytes;
  for (const BoundaryCosts& boundary : costs.boundaries) bytes.push_back(boundary.bytes);
  return bytes;
}

Engine::Engine(Program program, PerId<WorkerId, std::unique_ptr<Device>> devices,
               const std::vector<Bytes>& bytes)
    : program_(std::move(program)),
      devices_(std::move(devices)),
      places_(program_.commands.size()),
      enqueued_(program_.commands.size()) {
  PIPEPLAN_ASSERT(devices_.size() == program_.workers.size());
  draw_blank(bytes);
}

// Rank by rank and each in its own order, which ops without duration keep.
void Engine::draw_blank(const std::vector<Bytes>& bytes) {
  std::map<std::pair<CommandKind, Op>, std::size_t> drawn;
  for (const WorkerId worker : ids<WorkerId>(devices_.size()))
    for (const CommandId id : program_.order[worker]) {
      const Command& command = program_.commands[id.index()];
      const bool send = command.kind == CommandKind::send;
      if (command.kind != CommandKind::compute && (!send || command.target == worker)) continue;
      const std::size_t next = send ? blank_.transfers.size() : blank_.spans.size();
      const auto [place, is_new] = drawn.try_emplace({command.kind, command.op}, next);
      if (is_new) draw_command(program_.workers[worker].rank, command, bytes);
      places_[id.index()] = place->second;
    }
  for (const Worker& worker : program_.workers)
    if (worker.rank == blank_.memory.end_id()) blank_.memory.push_back({});
}

void Engine::draw_command(RankId rank, const Command& command, const std::vector<Bytes>& bytes) {
  if (command.kind == CommandKind::send)
    blank_.transfers.push_back(transfer_of(command.op, bytes));
  else
    blank_.spans.push_back({command.op, rank, Nanoseconds::max(), Nanoseconds::min()});
}

Result<IterationResult> Engine::run_iteration(std::int64_t number) {
  for (auto& device : devices_) PIPEPLAN_CHECK(device->begin_iteration(number));
  enqueue_all();
  // All are waited for, whatever fails: commands must not outlive the iteration.
  Result<void> outcome;
  for (auto& device : devices_)
    if (Result<void> waited = device->wait_all(); !waited && outcome) outcome = std::move(waited);
  PIPEPLAN_CHECK(outcome);
  return collect();
}

bool Engine::ready(const Command& command) const {
  return std::ranges::all_of(command.waits, [&](CommandId id) { return enqueued_[id.index()]; });
}

void Engine::enqueue_all() {
  enqueued_.assign(enqueued_.size(), false);
  PerId<WorkerId, std::size_t> next(devices_.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (const WorkerId worker : ids<WorkerId>(devices_.size())) {
      const auto& order = program_.order[worker];
      for (; next[worker] < order.size(); ++next[worker]) {
        const Command& command = program_.commands[order[next[worker]].index()];
        if (!ready(command)) break;
        devices_[worker]->enqueue(command);
        enqueued_[command.id.index()] = moved = true;
      }
    }
  }
  PIPEPLAN_ASSERT(std::ranges::find(enqueued_, false) == enqueued_.end());
}

Result<IterationResult> Engine::collect() const {
  PerId<WorkerId, std::vector<Stamp>> stamps;
  for (const auto& device : devices_) {
    PIPEPLAN_TRY(taken, device->stamps());
    PIPEPLAN_ASSERT(taken.size() == program_.order[stamps.end_id()].size());
    stamps.push_back(std::move(taken));
  }
  IterationResult result{.timeline = blank_, .load = {}};
  const std::int64_t shown = slowest_copy(stamps);
  Nanoseconds origin = Nanoseconds::max();
  for (const WorkerId worker : ids<WorkerId>(devices_.size())) {
    for (const Stamp& stamp : stamps[worker]) {
      note_time(stamp, result);
      if (computes(stamp)) origin = std::min(origin, stamp.start);
      if (program_.workers[worker].copy == shown) show(stamp, result.timeline);
    }
    note_memory(worker, result.timeline);
  }
  if (!result.timeline.spans.empty()) start_at_zero(result.timeline, origin);
  sort_events(result.timeline);
  return result;
}

// By the end of the last command of any of its workers; the first of equals.
std::int64_t Engine::slowest_copy(const PerId<WorkerId, std::vector<Stamp>>& stamps) const {
  std::int64_t slowest = 0;
  Nanoseconds latest = Nanoseconds::min();
  for (const WorkerId worker : ids<WorkerId>(stamps.size()))
    for (const Stamp& stamp : stamps[worker])
      if (stamp.end > latest) latest = stamp.end, slowest = program_.workers[worker].copy;
  return slowest;
}

void Engine::note_time(const Stamp& stamp, IterationResult& result) const {
  const CommandKind kind = program_.commands[stamp.command.index()].kind;
  Timeline& timeline = result.timeline;
  if (kind != CommandKind::send) timeline.iteration = std::max(timeline.iteration, stamp.end);
  if (!computes(stamp)) return;
  timeline.makespan = std::max(timeline.makespan, stamp.end);
  result.load.wall += stamp.end - stamp.start;
  result.load.cpu += stamp.cpu;
}

bool Engine::computes(const Stamp& stamp) const {
  return program_.commands[stamp.command.index()].kind == CommandKind::compute;
}

void Engine::show(const Stamp& stamp, Timeline& timeline) const {
  const auto& at = places_[stamp.command.index()];
  if (!at) return;
  if (program_.commands[stamp.command.index()].kind == CommandKind::send)
    widen(timeline.transfers[*at], stamp);
  else
    widen(timeline.spans[*at], stamp);
}

void Engine::note_memory(WorkerId worker, Timeline& timeline) const {
  const Worker& it = program_.workers[worker];
  RankMemory& most = timeline.memory[it.rank];
  RankMemory held = devices_[worker]->memory();
  const bool first = it.copy == 0 && it.replica == 0;
  if (first || held.peak.total() > most.peak.total()) most = std::move(held);
}

}  // namespace pipeplan
