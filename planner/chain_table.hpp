#pragma once

// The dynamic program of chain_dp: for every stage and first layer, the fewest transfer bytes with which the
// layers from there on can be cut into the stages left, if no stage and no link takes longer than a time and
// no stage holds more than a number of bytes. Every question of chain_dp is put to it by moving these limits.
//
// Three things keep a question cheap. Greedy cutting from either end bounds where each cut can be at all (a
// band). Inside the bands the ends that a start allows form a window that only moves left as the start does,
// so the best end comes from a sliding minimum. And only where what a stage holds for its cuts (receive
// buffers, the input of recomputed layers) decides whether it fits, ends are tried one by one.

#include <cstdint>
#include <limits>
#include <vector>

#include "planner/window_costs.hpp"

namespace pipeplan {

inline constexpr std::int64_t no_limit = std::numeric_limits<std::int64_t>::max();

struct ChainLimits {
  std::int64_t time = no_limit;    // ns, of a stage or link
  std::int64_t memory = no_limit;  // bytes of a stage, beside its device's own limit
};

// Positions with values; positions arrive in descending order and leave from the top.
class SlidingMinimum {
 public:
  void clear();
  void push(std::int64_t position, std::int64_t value);
  void drop_beyond(std::int64_t position);
  // The least value held, no_limit if none.
  [[nodiscard]] std::int64_t least() const { return head_ < items_.size() ? items_[head_].value : no_limit; }

 private:
  struct Item {
    std::int64_t position, value;
  };
  std::vector<Item> items_;  // from head_ on: descending positions, ascending values
  std::size_t head_ = 0;
};

enum class CutCost { transfer_bytes, nothing };

class ChainTable {
 public:
  ChainTable(const WindowCosts& costs, CutCost cut_cost) : costs_(costs), cut_cost_(cut_cost) {}

  // Fewest transfer bytes of any split within the limits; no_limit if there is no split.
  std::int64_t cheapest(const ChainLimits& limits);
  // Of the splits that reach the last answer, the lexicographically smallest. There must be one.
  [[nodiscard]] std::vector<std::int64_t> smallest_bounds() const;

 private:
  // Where a stage can begin, both ends included, and the fewest bytes from each of these layers on.
  struct Band {
    std::int64_t first = 0, last = 0;
    std::vector<std::int64_t> bytes;
  };

  bool find_bands();
  void fill(std::int64_t stage);
  [[nodiscard]] std::int64_t least_doubtful(std::int64_t stage, std::int64_t first, std::int64_t sure_end,
                                            std::int64_t end, std::int64_t least) const;
  [[nodiscard]] std::int64_t farthest_end(std::int64_t stage, std::int64_t first) const;
  [[nodiscard]] std::int64_t nearest_first(std::int64_t stage, std::int64_t end) const;

  // Whether a window is within the limits: necessary, sufficient, and exactly so.
  [[nodiscard]] bool may_fit(std::int64_t stage, std::int64_t first, std::int64_t end) const;
  [[nodiscard]] bool surely_fits(std::int64_t stage, std::int64_t first, std::int64_t end) const;
  [[nodiscard]] bool fits(std::int64_t stage, std::int64_t first, std::int64_t end) const;

  [[nodiscard]] std::int64_t memory_limit(std::int64_t stage) const;
  // Bytes from the cut at `end` on, that cut included, if stage `stage` ends there.
  [[nodiscard]] std::int64_t bytes_behind(std::int64_t stage, std::int64_t end) const;
  [[nodiscard]] Band& band(std::int64_t stage) { return bands_[static_cast<std::size_t>(stage)]; }
  [[nodiscard]] const Band& band(std::int64_t stage) const { return bands_[static_cast<std::size_t>(stage)]; }

  const WindowCosts& costs_;
  CutCost cut_cost_;
  ChainLimits limits_;
  std::vector<Band> bands_;  // stages + 1: the last holds the end of the chain
  SlidingMinimum window_;
};

}  // namespace pipeplan
