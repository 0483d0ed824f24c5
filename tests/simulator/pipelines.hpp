#pragma once

// Pipelines for tests: uniform ones, random ones, and random orders that are legal by construction.

#include "planner/cost.hpp"
#include "simulator/schedule.hpp"
#include "tests/support/random.hpp"

namespace pipeplan::test {

inline StageTimes stage_times(std::int64_t forward, std::int64_t input, std::int64_t weight) {
  return {Nanoseconds{forward}, Nanoseconds{input}, Nanoseconds{weight}, Nanoseconds{0}};
}

// All stages alike, links with infinite bandwidth.
inline PipelineCosts uniform_costs(std::int64_t stages, StageTimes times, std::int64_t latency = 0) {
  const auto count = static_cast<std::size_t>(stages);
  BoundaryCosts boundary;
  boundary.link.latency = Nanoseconds{latency};
  return {PerId<StageId, StageTimes>(count, times), PerId<StageId, StageMemory>(count),
          std::vector<BoundaryCosts>(count - 1, boundary), TransferMode::overlapped};
}

// At 10^9 bytes per second a link is busy for as many ns as there are bytes.
inline constexpr BytesPerSecond byte_per_ns{1'000'000'000};

inline StageMemory random_memory(Random& random) {
  StageMemory memory;
  for (Bytes& bytes : memory.constant.items) bytes = Bytes{random.between(0, 100)};
  memory.constant[MemoryItem::activations] = Bytes{0};
  memory.activation_per_micro_batch = Bytes{random.between(0, 50)};
  memory.deferred_per_micro_batch = Bytes{random.between(0, 20)};
  return memory;
}

// Turns about half of the stages into ones that recompute.
inline std::vector<bool> add_recomputation(Random& random, PipelineCosts& costs) {
  std::vector<bool> recomputing;
  for (StageTimes& times : costs.times) {
    recomputing.push_back(random.coin());
    if (recomputing.back()) times.recompute = Nanoseconds{random.between(1, 30)};
  }
  return recomputing;
}

inline PipelineCosts random_costs(Random& random, std::int64_t stages) {
  PipelineCosts costs;
  for (std::int64_t i = 0; i < stages; ++i) {
    costs.times.push_back(stage_times(random.between(0, 40), random.between(0, 40), random.between(0, 40)));
    costs.memory.push_back(random_memory(random));
  }
  for (std::int64_t i = 0; i + 1 < stages; ++i) {
    BoundaryCosts boundary;
    boundary.bytes = Bytes{random.between(0, 60)};
    boundary.link.latency = Nanoseconds{random.between(0, 30)};
    if (random.coin()) boundary.link.bandwidth = byte_per_ns;
    costs.boundaries.push_back(boundary);
  }
  costs.transfers = static_cast<TransferMode>(random.between(0, 2));
  return costs;
}

// What can run next, when `done` says what has run: the ops of all stages whose inputs are there. Stages that
// recompute have no split backward, and R before it or not; after R nothing of the stage comes but its X.
class RandomOrder {
 public:
  RandomOrder(Random& random, std::int64_t stages, std::int64_t micro_batches, std::int64_t ranks,
              std::vector<bool> recomputing)
      : random_(random), schedule_{ScheduleKind::gpipe, false, stages, micro_batches, {}} {
    schedule_.ranks = PerId<RankId, std::vector<Op>>(static_cast<std::size_t>(ranks));
    recomputing.resize(static_cast<std::size_t>(stages));
    for (const bool recomputes : recomputing)
      for (std::int64_t k = 0; k < micro_batches; ++k) {
        split_.push_back(!recomputes && random.coin());
        apart_.push_back(recomputes && random.coin());
      }
    passed_.assign(split_.size(), 0);
    recomputed_.assign(static_cast<std::size_t>(stages), none);
  }

  // Runs ready ops in a random sequence and notes them on their ranks: stage s lives on rank s mod ranks.
  Schedule make() {
    for (std::vector<Op> ready = ready_ops(); !ready.empty(); ready = ready_ops()) {
      const Op op =
          ready[static_cast<std::size_t>(random_.between(0, static_cast<std::int64_t>(ready.size()) - 1))];
      const auto rank = static_cast<std::size_t>(op.stage.value) % schedule_.ranks.size();
      schedule_.ranks[id_of<RankId>(rank)].push_back(op);
      pass(op);
    }
    return schedule_;
  }

 private:
  static constexpr std::int32_t none = -1;

  void pass(const Op& op) {
    std::int32_t& recomputed = recomputed_[op.stage.index()];
    if (op.kind == OpKind::recompute)
      recomputed = op.micro_batch.value;
    else
      ++passed_[pair(op.stage.value, op.micro_batch.value)];
    if (op.kind == OpKind::backward) recomputed = none;
  }

  // passed: 0 nothing, 1 F, 2 X or B, 3 W.
  std::vector<Op> ready_ops() const {
    std::vector<Op> ready;
    const auto stages = static_cast<std::int32_t>(schedule_.stage_count);
    for (std::int32_t s = 0; s < stages; ++s)
      for (std::int32_t k = 0; k < static_cast<std::int32_t>(schedule_.micro_batch_count); ++k)
        if (const std::int32_t held = recomputed_[static_cast<std::size_t>(s)]; held == none || held == k)
          add_ready(s, k, ready);
    return ready;
  }

  void add_ready(std::int32_t s, std::int32_t k, std::vector<Op>& ready) const {
    using enum OpKind;
    const auto last = static_cast<std::int32_t>(schedule_.stage_count) - 1;
    const bool split = split_[pair(s, k)];
    const bool recomputed = recomputed_[static_cast<std::size_t>(s)] == k;
    const int passed = passed_[pair(s, k)];
    if (passed == 0 && (s == 0 || passed_[pair(s - 1, k)] >= 1))
      ready.push_back({forward, StageId{s}, MicrobatchId{k}});
    if (passed == 1 && apart_[pair(s, k)] && !recomputed)
      ready.push_back({recompute, StageId{s}, MicrobatchId{k}});
    else if (passed == 1 && (s == last || passed_[pair(s + 1, k)] >= 2))
      ready.push_back({split ? backward_input : backward, StageId{s}, MicrobatchId{k}});
    if (passed == 2 && split) ready.push_back({backward_weight, StageId{s}, MicrobatchId{k}});
  }

  [[nodiscard]] std::size_t pair(std::int32_t s, std::int32_t k) const {
    return static_cast<std::size_t>(s * schedule_.micro_batch_count + k);
  }

  Random& random_;
  Schedule schedule_;
  std::vector<bool> split_, apart_;       // per pair of stage and micro-batch
  std::vector<int> passed_;               // likewise
  std::vector<std::int32_t> recomputed_;  // per stage: the micro-batch between R and X
};

inline Schedule random_order(Random& random, std::int64_t stages, std::int64_t micro_batches,
                             std::int64_t ranks, const std::vector<bool>& recomputing = {}) {
  return RandomOrder(random, stages, micro_batches, ranks, recomputing).make();
}

inline Schedule random_schedule(Random& random, std::int64_t stages) {
  const std::int64_t micro_batches = random.between(1, 6);
  if (random.coin()) return random_order(random, stages, micro_batches, stages);
  return make_schedule(static_cast<ScheduleKind>(random.between(0, 2)), stages, micro_batches);
}

inline constexpr ScheduleKind all_schedules[] = {ScheduleKind::naive, ScheduleKind::gpipe,
                                                 ScheduleKind::one_f_one_b};

}  // namespace pipeplan::test
