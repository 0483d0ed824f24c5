#pragma once

// What an arena held when, for work that is enqueued long before it happens: each change is noted with the
// command that makes it, and gets its time once that command has been stamped.

#include <map>
#include <vector>

#include "executor/device.hpp"
#include "models/layers/arena.hpp"

namespace pipeplan {

class MemoryTrail {
 public:
  // Forgets all but what `arena` holds now.
  void restart(Arena& arena);
  // A command that takes memory holds it from its start, one that gives some back does so at its end;
  // `change` counts micro-batches in flight.
  void note_taken(CommandId command, const Arena& arena, std::int64_t change);
  void note_released(CommandId command, const Arena& arena, std::int64_t change);
  // Stamps of all noted commands, on a clock that starts at 0.
  [[nodiscard]] RankMemory timed(const std::vector<Stamp>& stamps, const Arena& arena) const;

 private:
  struct Note {
    CommandId command;
    bool at_end = false;
    Bytes bytes;
    std::int64_t in_flight = 0;
  };
  void note(CommandId command, bool at_end, const Arena& arena, std::int64_t change);

  Bytes held_at_first_;
  std::vector<Note> notes_;
  std::int64_t in_flight_ = 0;
};

}  // namespace pipeplan
