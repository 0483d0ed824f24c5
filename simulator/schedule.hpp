#pragma once

// A schedule: for each rank the order of its ops in one iteration. Times are not part of it. The document is
// pipeplan.schedule/1: {"schedule": "gpipe", "stages": 1, "micro_batches": 1, "ranks": [["F0.0", "X0.0"]]},
// op = kind, stage, '.', micro-batch. Only "ranks" must be there: without the name the order is a hand-made
// one, and the counts follow from the ops.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/id.hpp"
#include "models/base/json_file.hpp"
#include "models/base/spelling.hpp"
#include "planner/plan.hpp"

namespace pipeplan {

enum class OpKind {
  forward,
  backward_input,
  backward_weight,
  backward,   // fused: input and weights
  recompute,  // forward again
};

constexpr auto spellings(OpKind) {
  using enum OpKind;
  return std::to_array<Spelling<OpKind>>(
      {{forward, "F"}, {backward_input, "B"}, {backward_weight, "W"}, {backward, "X"}, {recompute, "R"}});
}

struct Op {
  OpKind kind = OpKind::forward;
  StageId stage;
  MicrobatchId micro_batch;
  friend auto operator<=>(const Op&, const Op&) = default;
};

std::string op_text(const Op& op);  // "F0.3"
// The one spelling of each op and nothing else; numbers up to 999999999.
Result<Op> parse_op(std::string_view text, const std::string& where);

// What a schedule does to the micro-batch's activations and to its neighbours.
inline bool sends_gradient(OpKind kind) { return kind == OpKind::backward || kind == OpKind::backward_input; }
inline bool releases_activations(OpKind kind) {
  return kind == OpKind::backward || kind == OpKind::backward_weight;
}

struct Schedule {
  ScheduleKind kind = ScheduleKind::gpipe;  // means nothing unless named
  bool named = true;                        // false: a hand-made order, for which no closed form is claimed
  std::int64_t stage_count = 1;
  std::int64_t micro_batch_count = 1;
  PerId<RankId, std::vector<Op>> ranks;
  friend bool operator==(const Schedule&, const Schedule&) = default;
};

// Larger pipelines are refused: their timelines would not fit in memory.
inline constexpr std::int64_t largest_op_count = std::int64_t{1} << 25;

// The order of `plan`'s schedule for its stages and micro-batches: one stage per rank. Where the plan
// recomputes early, R stands right before the X of each stage that recomputes.
Result<Schedule> make_schedule(const Plan& plan);
// The same without a plan; both counts at least 1.
Schedule make_schedule(ScheduleKind kind, std::int64_t stages, std::int64_t micro_batches);

Json to_json(const Schedule& schedule);
// Checks the form alone (and a named order against its name, which R ops do not change); whether the order
// can run is check_schedule's question.
Result<Schedule> schedule_from_json(const Json& json, const std::string& source);

}  // namespace pipeplan
