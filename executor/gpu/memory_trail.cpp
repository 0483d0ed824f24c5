#include "executor/gpu/memory_trail.hpp"

#include <algorithm>

namespace pipeplan {

void MemoryTrail::restart(Arena& arena) {
  arena.reset_peak();
  notes_.clear();
  held_at_first_ = arena.in_use().total();
  in_flight_ = 0;
}

void MemoryTrail::note_taken(CommandId command, const Arena& arena, std::int64_t change) {
  note(command, false, arena, change);
}

void MemoryTrail::note_released(CommandId command, const Arena& arena, std::int64_t change) {
  note(command, true, arena, change);
}

void MemoryTrail::note(CommandId command, bool at_end, const Arena& arena, std::int64_t change) {
  in_flight_ += change;
  notes_.push_back(
      {.command = command, .at_end = at_end, .bytes = arena.in_use().total(), .in_flight = in_flight_});
}

RankMemory MemoryTrail::timed(const std::vector<Stamp>& stamps, const Arena& arena) const {
  std::map<CommandId, const Stamp*> by_command;
  for (const Stamp& stamp : stamps) by_command.emplace(stamp.command, &stamp);
  RankMemory memory{.steps = {{.at = {}, .bytes = held_at_first_}}, .peak = arena.at_peak()};
  for (const Note& it : notes_) {
    const Stamp& stamp = *by_command.at(it.command);
    memory.steps.push_back(
        {.at = it.at_end ? stamp.end : stamp.start, .bytes = it.bytes, .in_flight = it.in_flight});
    memory.peak_in_flight = std::max(memory.peak_in_flight, it.in_flight);
  }
  memory.peak_at = std::ranges::max_element(memory.steps, {}, &MemoryStep::bytes)->at;
  return memory;
}

}  // namespace pipeplan
