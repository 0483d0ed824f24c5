#pragma once

// Did every op of a timeline, simulated, measured or drawn by hand, start after all that it needs had ended?

#include <string>
#include <vector>

#include "simulator/timeline.hpp"

namespace pipeplan {

struct TooEarly {
  Span span;
  Span needs;  // ends after span starts
  friend bool operator==(const TooEarly&, const TooEarly&) = default;
};

// In the order of the spans; an input that the timeline does not show is taken as there. O(ops log ops).
std::vector<TooEarly> early_starts(const Timeline& timeline);

// "X0.0 on rank 0 starts at 300 us, but X1.0 on rank 1, which it needs, ends at 1 ms"
std::string early_start_text(const TooEarly& early);

}  // namespace pipeplan
