#pragma once

// What happened when: the common form of a simulated and a measured iteration. Times count from the start of
// the iteration. The document is pipeplan.timeline/1.

#include <vector>

#include "models/base/json_file.hpp"
#include "models/layers/arena.hpp"
#include "simulator/schedule.hpp"

namespace pipeplan {

struct Span {
  Op op;
  RankId rank;
  Nanoseconds start{}, end{};
  friend bool operator==(const Span&, const Span&) = default;
};

enum class Direction { forward, backward };

constexpr auto spellings(Direction) {
  return std::to_array<Spelling<Direction>>(
      {{Direction::forward, "forward"}, {Direction::backward, "backward"}});
}

// One tensor on its way: leaves `from`'s rank at start, is there at end.
struct Transfer {
  Direction direction = Direction::forward;
  StageId from, to;
  MicrobatchId micro_batch;
  Nanoseconds start{}, end{};
  Bytes bytes;
  friend bool operator==(const Transfer&, const Transfer&) = default;
};

// From `at` on a rank holds this much; of several steps at one instant the last stays, and what is released
// comes first.
struct MemoryStep {
  Nanoseconds at{};
  Bytes bytes;
  std::int64_t in_flight = 0;
  friend bool operator==(const MemoryStep&, const MemoryStep&) = default;
};

struct RankMemory {
  std::vector<MemoryStep> steps;  // ascending time; the peak is the first step with the most bytes
  MemoryUse peak;
  Nanoseconds peak_at{};
  std::int64_t peak_in_flight = 0;
  friend bool operator==(const RankMemory&, const RankMemory&) = default;
};

struct Timeline {
  std::vector<Span> spans;          // by (start, rank)
  std::vector<Transfer> transfers;  // by (start, from, direction)
  PerId<RankId, RankMemory> memory;
  Nanoseconds makespan{};   // end of the last op
  Nanoseconds iteration{};  // with what is not hidden of the optimizer step
  friend bool operator==(const Timeline&, const Timeline&) = default;

  [[nodiscard]] Nanoseconds step() const { return iteration - makespan; }
};

// Puts spans and transfers into their order. Stable: given rank by rank, ops without duration keep the order
// of their rank.
void sort_events(Timeline& timeline);

Json to_json(const Timeline& timeline);
Result<Timeline> timeline_from_json(const Json& json, const std::string& source);

// {"weights_bytes": …, …}: how every document itemises memory.
Json memory_items_json(const MemoryUse& use);

}  // namespace pipeplan
