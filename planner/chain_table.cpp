#include "planner/chain_table.hpp"

#include <algorithm>

#include "models/base/assert.hpp"

namespace pipeplan {

void SlidingMinimum::clear() {
  items_.clear();
  head_ = 0;
}

void SlidingMinimum::push(std::int64_t position, std::int64_t value) {
  while (items_.size() > head_ && items_.back().value >= value) items_.pop_back();
  items_.push_back({position, value});
}

void SlidingMinimum::drop_beyond(std::int64_t position) {
  while (head_ < items_.size() && items_[head_].position > position) ++head_;
}

std::int64_t ChainTable::memory_limit(std::int64_t stage) const {
  return std::min(limits_.memory, costs_.memory_limit(stage));
}

bool ChainTable::may_fit(std::int64_t stage, std::int64_t first, std::int64_t end) const {
  if (costs_.time(stage, first, end) > limits_.time) return false;
  const std::int64_t limit = memory_limit(stage);
  return limit == no_limit || costs_.least_memory(stage, first, end) <= limit;
}

bool ChainTable::surely_fits(std::int64_t stage, std::int64_t first, std::int64_t end) const {
  const std::int64_t limit = memory_limit(stage);
  return limit == no_limit || costs_.most_memory(stage, first, end) <= limit;
}

bool ChainTable::fits(std::int64_t stage, std::int64_t first, std::int64_t end) const {
  return costs_.time(stage, first, end) <= limits_.time &&
         costs_.memory(stage, first, end) <= memory_limit(stage);
}

std::int64_t ChainTable::bytes_behind(std::int64_t stage, std::int64_t end) const {
  const Band& next = band(stage + 1);
  const std::int64_t bytes = next.bytes[static_cast<std::size_t>(end - next.first)];
  if (stage + 1 == costs_.stages() || bytes == no_limit) return bytes;
  return cut_cost_ == CutCost::nothing ? bytes : bytes + costs_.cut_bytes(end);
}

// Both searches look for the end of the run of windows that may fit; an empty window counts as one.
std::int64_t ChainTable::farthest_end(std::int64_t stage, std::int64_t first) const {
  std::int64_t fitting = first;
  std::int64_t beyond = costs_.layers() + 1;
  while (beyond - fitting > 1) {
    const std::int64_t middle = fitting + (beyond - fitting) / 2;
    (may_fit(stage, first, middle) ? fitting : beyond) = middle;
  }
  return fitting;
}

std::int64_t ChainTable::nearest_first(std::int64_t stage, std::int64_t end) const {
  std::int64_t fitting = end;
  std::int64_t beyond = -1;
  while (fitting - beyond > 1) {
    const std::int64_t middle = beyond + (fitting - beyond) / 2;
    (may_fit(stage, middle, end) ? fitting : beyond) = middle;
  }
  return fitting;
}

// Stage s begins at most where greedy cutting from the front gets with s stages, and at least where greedy
// cutting from the back needs the stages left. False if the two show that no split is within the limits.
bool ChainTable::find_bands() {
  const std::int64_t stages = costs_.stages();
  bands_.resize(static_cast<std::size_t>(stages) + 1);
  band(0).last = 0;
  for (std::int64_t stage = 0; stage < stages; ++stage)
    band(stage + 1).last =
        std::min(farthest_end(stage, band(stage).last), costs_.layers() - (stages - 1 - stage));
  band(stages).first = costs_.layers();
  for (std::int64_t stage = stages; stage-- > 0;)
    band(stage).first = std::max(nearest_first(stage, band(stage + 1).first), stage);
  return std::all_of(bands_.begin(), bands_.end(), [](const Band& each) { return each.first <= each.last; });
}

// The least bytes behind an end in (sure_end, end], where each must be tried; at most `least`.
std::int64_t ChainTable::least_doubtful(std::int64_t stage, std::int64_t first, std::int64_t sure_end,
                                        std::int64_t end, std::int64_t least) const {
  for (std::int64_t tried = std::max(sure_end + 1, band(stage + 1).first); tried <= end; ++tried) {
    const std::int64_t bytes = bytes_behind(stage, tried);
    if (bytes < least && fits(stage, first, tried)) least = bytes;
  }
  return least;
}

void ChainTable::fill(std::int64_t stage) {
  Band& own = band(stage);
  const Band& next = band(stage + 1);
  own.bytes.resize(static_cast<std::size_t>(own.last - own.first) + 1);
  window_.clear();
  std::int64_t entering = next.last;  // the next end to enter the window
  std::int64_t end = next.last;       // the last end that may fit
  std::int64_t sure_end = next.last;  // the last end that surely fits
  for (std::int64_t first = own.last; first >= own.first; --first) {
    std::int64_t& bytes = own.bytes[static_cast<std::size_t>(first - own.first)];
    bytes = no_limit;
    if (stage > 0 && costs_.link_time(stage - 1, first) > limits_.time) continue;
    for (; entering > first && entering >= next.first; --entering)
      window_.push(entering, bytes_behind(stage, entering));
    while (end > first && !may_fit(stage, first, end)) --end;
    sure_end = std::min(sure_end, end);
    while (sure_end > first && !surely_fits(stage, first, sure_end)) --sure_end;
    window_.drop_beyond(sure_end);
    bytes = least_doubtful(stage, first, std::max(sure_end, first), end, window_.least());
  }
}

std::int64_t ChainTable::cheapest(const ChainLimits& limits) {
  limits_ = limits;
  if (!find_bands()) return no_limit;
  band(costs_.stages()).bytes.assign(1, 0);
  for (std::int64_t stage = costs_.stages(); stage-- > 0;) fill(stage);
  return band(0).bytes.front();
}

std::vector<std::int64_t> ChainTable::smallest_bounds() const {
  std::vector<std::int64_t> bounds{0};
  for (std::int64_t stage = 0; stage + 1 < costs_.stages(); ++stage) {
    const std::int64_t first = bounds.back();
    const std::int64_t left = band(stage).bytes[static_cast<std::size_t>(first - band(stage).first)];
    std::int64_t end = std::max(first + 1, band(stage + 1).first);
    while (bytes_behind(stage, end) != left || !fits(stage, first, end)) {
      ++end;
      PIPEPLAN_ASSERT(end <= band(stage + 1).last);
    }
    bounds.push_back(end);
  }
  bounds.push_back(costs_.layers());
  return bounds;
}

}  // namespace pipeplan
