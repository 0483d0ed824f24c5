#pragma once

// What any window of layers costs as any stage, in constant time: the same numbers as score_split's, prepared
// for an algorithm that asks millions of times. What a stage holds depends on the cuts at its ends besides:
// receive buffers, and the input of recomputed layers that it begins with. least_memory and most_memory
// bracket that by the cheapest and the dearest cut; unlike memory itself they grow with the window, at either
// end, and so does time.

#include <cstdint>
#include <vector>

#include "planner/ratio.hpp"
#include "planner/split.hpp"

namespace pipeplan {

// The largest of any run of values in constant time, after O(n log n) (a sparse table; Bender and
// Farach-Colton 2000).
class RangeMaximum {
 public:
  explicit RangeMaximum(const std::vector<std::int64_t>& values);
  [[nodiscard]] std::int64_t largest(std::int64_t first, std::int64_t end) const;  // first < end

 private:
  std::vector<std::vector<std::int64_t>> levels_;  // level l: of the 2^l values from here
};

class WindowCosts {
 public:
  explicit WindowCosts(const SplitProblem& problem);  // refers to problem.table

  [[nodiscard]] std::int64_t layers() const { return table_.layer_count; }
  [[nodiscard]] std::int64_t stages() const { return static_cast<std::int64_t>(terms_.size()); }

  // Layers [first, end), not empty, as stage `stage`.
  [[nodiscard]] std::int64_t time(std::int64_t stage, std::int64_t first, std::int64_t end) const {
    return table_.stage_time(first, end, terms(stage).speed);
  }
  [[nodiscard]] std::int64_t memory(std::int64_t stage, std::int64_t first, std::int64_t end) const;
  [[nodiscard]] std::int64_t least_memory(std::int64_t stage, std::int64_t first, std::int64_t end) const {
    return memory_between_cuts(stage, first, end) + terms(stage).least_at_cuts;
  }
  [[nodiscard]] std::int64_t most_memory(std::int64_t stage, std::int64_t first, std::int64_t end) const {
    return memory_between_cuts(stage, first, end) + terms(stage).most_at_cuts;
  }
  // How long the link behind stage `stage` is busy if the next stage begins with layer `cut`.
  [[nodiscard]] std::int64_t link_time(std::int64_t stage, std::int64_t cut) const;
  [[nodiscard]] std::int64_t cut_bytes(std::int64_t cut) const { return at(table_.cut_bytes, cut); }
  [[nodiscard]] std::int64_t memory_limit(std::int64_t stage) const { return terms(stage).limit; }

  // Of a whole split.
  [[nodiscard]] std::int64_t slowest(const std::vector<std::int64_t>& bounds) const;
  [[nodiscard]] std::int64_t largest_memory(const std::vector<std::int64_t>& bounds) const;

 private:
  struct StageTerms {
    Ratio speed;
    std::int64_t reserved, limit;
    std::int64_t in_flight;
    std::int64_t receive_in, receive_out;  // buffers at the cut before and behind
    std::int64_t least_at_cuts, most_at_cuts;
    std::size_t link;  // which of link_times_
  };

  static std::int64_t at(const std::vector<std::int64_t>& values, std::int64_t index) {
    return values[static_cast<std::size_t>(index)];
  }
  [[nodiscard]] const StageTerms& terms(std::int64_t stage) const {
    return terms_[static_cast<std::size_t>(stage)];
  }
  [[nodiscard]] std::int64_t memory_between_cuts(std::int64_t stage, std::int64_t first,
                                                 std::int64_t end) const;
  // What a stage holds for the cut that it begins with.
  [[nodiscard]] std::int64_t bytes_before(const StageTerms& own, std::int64_t first) const {
    return own.receive_in * cut_bytes(first) + own.in_flight * at(table_.entering, first);
  }
  void bracket_cuts(StageTerms& terms, std::int64_t stage, std::int64_t stages) const;
  [[nodiscard]] StageTerms stage_terms(const SplitProblem& problem, std::int64_t stage) const;
  void time_links(const SplitProblem& problem);

  const CostTable& table_;
  Ratio state_factor_;
  RangeMaximum workspace_;
  std::vector<StageTerms> terms_;
  std::vector<std::vector<std::int64_t>>
      link_times_;  // per kind of link and cut; empty where links do not count
};

}  // namespace pipeplan
