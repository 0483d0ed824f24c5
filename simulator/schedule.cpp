#include "simulator/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/base/json_reader.hpp"
#include "simulator/schedules/gpipe.hpp"
#include "simulator/schedules/naive.hpp"
#include "simulator/schedules/one_f_one_b.hpp"

namespace pipeplan {
namespace {

constexpr std::string_view schedule_schema = "pipeplan.schedule/1";
constexpr std::string_view op_form = "\"F0.3\": one of F B W X R, stage, '.', micro-batch";

// The number at the front of `text`, taken off it: at most nine digits, no sign, no leading zero.
std::optional<std::int32_t> take_number(std::string_view& text) {
  std::size_t length = 0;
  while (length < text.size() && text[length] >= '0' && text[length] <= '9') ++length;
  if (length == 0 || length > 9 || (length > 1 && text[0] == '0')) return std::nullopt;
  std::int32_t number = 0;
  for (const char digit : text.substr(0, length)) number = number * 10 + (digit - '0');
  text.remove_prefix(length);
  return number;
}

std::optional<Op> op_in(std::string_view text) {
  const auto kind = from_spelling<OpKind>(text.substr(0, 1));
  if (!kind) return std::nullopt;
  text.remove_prefix(1);
  const auto stage = take_number(text);
  if (!stage || !text.starts_with('.')) return std::nullopt;
  text.remove_prefix(1);
  const auto micro_batch = take_number(text);
  if (!micro_batch || !text.empty()) return std::nullopt;
  return Op{*kind, StageId{*stage}, MicrobatchId{*micro_batch}};
}

std::vector<Op> rank_order(ScheduleKind kind, std::int64_t ranks, std::int64_t micro_batches, RankId rank) {
  switch (kind) {
    case ScheduleKind::naive: return naive_order(ranks, micro_batches, rank);
    case ScheduleKind::gpipe: return gpipe_order(ranks, micro_batches, rank);
    case ScheduleKind::one_f_one_b: return one_f_one_b_order(ranks, micro_batches, rank);
  }
  PIPEPLAN_UNREACHABLE("a schedule without an order");
}

Result<std::vector<Op>> read_row(const Json& row, const std::string& where) {
  if (!row.is_array()) return bad_input(where, fmt::format("is {}, wanted an array of ops", shown(row)));
  std::vector<Op> ops;
  ops.reserve(row.size());
  for (std::size_t i = 0; i < row.size(); ++i) {
    const std::string place = fmt::format("{}/{}", where, i);
    if (!row[i].is_string())
      return bad_input(place, fmt::format("is {}, wanted an op as in {}", shown(row[i]), op_form));
    PIPEPLAN_TRY(op, parse_op(row[i].get_ref<const std::string&>(), place));
    ops.push_back(op);
  }
  return ops;
}

Result<PerId<RankId, std::vector<Op>>> read_rows(const Json& rows, const std::string& where) {
  if (!rows.is_array() || rows.empty())
    return bad_input(where, fmt::format("is {}, wanted one array of ops per rank", shown(rows)));
  PerId<RankId, std::vector<Op>> ranks;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    PIPEPLAN_TRY(row, read_row(rows[i], fmt::format("{}/{}", where, i)));
    ranks.push_back(std::move(row));
  }
  return ranks;
}

// A document that gives no counts means the largest numbers that its ops name.
void count_from_ops(Schedule& schedule, bool stages, bool micro_batches) {
  for (const auto& row : schedule.ranks)
    for (const Op& op : row) {
      if (stages) schedule.stage_count = std::max<std::int64_t>(schedule.stage_count, op.stage.value + 1);
      if (micro_batches)
        schedule.micro_batch_count =
            std::max<std::int64_t>(schedule.micro_batch_count, op.micro_batch.value + 1);
    }
}

std::vector<Op> without_recomputation(std::vector<Op> row) {
  std::erase_if(row, [](const Op& op) { return op.kind == OpKind::recompute; });
  return row;
}

bool is_order_of_its_name(const Schedule& schedule) {
  const auto stages = static_cast<std::size_t>(schedule.stage_count);
  const auto row_length = static_cast<std::size_t>(2 * schedule.micro_batch_count);
  if (schedule.ranks.size() != stages) return false;
  for (const RankId rank : ids<RankId>(stages)) {
    const std::vector<Op> row = without_recomputation(schedule.ranks[rank]);
    if (row.size() != row_length) return false;  // asked first: counts in a document can be anything
    if (row != rank_order(schedule.kind, schedule.stage_count, schedule.micro_batch_count, rank))
      return false;
  }
  return true;
}

Result<void> check_one_stage_per_rank(const Plan& plan) {
  for (const StageId stage : ids<StageId>(plan.stages.size()))
    if (const RankId rank = plan.stages[stage].rank; rank.value != stage.value)
      return bad_input(
          fmt::format("plan#/stages/{}/rank", stage.value),
          fmt::format("is {}, wanted {}: one stage per rank, in order", rank.value, stage.value),
          fmt::format("schedule '{}' knows no other placement; give an order of ops made for it (--order)",
                      spelt(plan.schedule)));
  return {};
}

// R right before each X of `row`.
std::vector<Op> with_early_recomputation(const std::vector<Op>& row) {
  std::vector<Op> longer;
  for (const Op& op : row) {
    if (op.kind == OpKind::backward) longer.push_back({OpKind::recompute, op.stage, op.micro_batch});
    longer.push_back(op);
  }
  return longer;
}

}  // namespace

std::string op_text(const Op& op) {
  return fmt::format("{}{}.{}", spelt(op.kind), op.stage.value, op.micro_batch.value);
}

Result<Op> parse_op(std::string_view text, const std::string& where) {
  if (const auto op = op_in(text)) return *op;
  return bad_input(where,
                   fmt::format("is {}, wanted an op as in {}", shown(Json(std::string(text))), op_form));
}

Result<Schedule> make_schedule(const Plan& plan) {
  const std::int64_t stages = plan.stage_count();
  if (stages < 1) return bad_input("plan#/stages", "is empty, wanted at least one stage");
  if (plan.micro_batch_count < 1)
    return bad_input("plan#/micro_batch_count",
                     fmt::format("is {}, wanted at least 1", plan.micro_batch_count));
  PIPEPLAN_CHECK(check_one_stage_per_rank(plan));
  if (plan.micro_batch_count > largest_op_count / 2 / stages)
    return bad_input(
        "plan#/micro_batch_count",
        fmt::format("is {}, wanted at most {} on {} stages: a schedule holds at most {} ops",
                    plan.micro_batch_count, largest_op_count / 2 / stages, stages, largest_op_count));
  Schedule schedule = make_schedule(plan.schedule, stages, plan.micro_batch_count);
  if (plan.recompute_mode == RecomputeMode::fused) return schedule;
  for (const StageId stage : ids<StageId>(plan.stages.size()))
    if (auto& row = schedule.ranks[plan.stages[stage].rank]; !plan.stages[stage].recompute.empty())
      row = with_early_recomputation(row);
  return schedule;
}

Schedule make_schedule(ScheduleKind kind, std::int64_t stages, std::int64_t micro_batches) {
  PIPEPLAN_ASSERT(stages >= 1 && micro_batches >= 1);
  Schedule schedule{kind, true, stages, micro_batches, {}};
  for (const RankId rank : ids<RankId>(static_cast<std::size_t>(stages)))
    schedule.ranks.push_back(rank_order(kind, stages, micro_batches, rank));
  return schedule;
}

Json to_json(const Schedule& schedule) {
  Json json{{"schema", schedule_schema}};
  if (schedule.named) json["schedule"] = spelt(schedule.kind);
  json["stages"] = schedule.stage_count;
  json["micro_batches"] = schedule.micro_batch_count;
  Json& rows = json["ranks"] = Json::array();
  for (const auto& row : schedule.ranks) {
    Json texts = Json::array();
    for (const Op& op : row) texts.push_back(op_text(op));
    rows.push_back(std::move(texts));
  }
  return json;
}

Result<Schedule> schedule_from_json(const Json& json, const std::string& source) {
  JsonSource place(source);
  ObjectReader reader(place, json, "");
  reader.expect_schema(std::string(schedule_schema));
  Schedule schedule;
  schedule.named = reader.optional_text("schedule").has_value();
  if (schedule.named) schedule.kind = reader.one_of<ScheduleKind>("schedule");
  constexpr std::int64_t most = 1'000'000'000;
  const auto stages = reader.optional_integer("stages", 1, most);
  const auto micro_batches = reader.optional_integer("micro_batches", 1, most);
  const Json& rows = reader.raw("ranks");
  reader.done();
  PIPEPLAN_TRY(read, place.result(schedule));
  PIPEPLAN_TRY(ranks, read_rows(rows, source + "#/ranks"));

  read.stage_count = stages.value_or(1);
  read.micro_batch_count = micro_batches.value_or(1);
  read.ranks = std::move(ranks);
  count_from_ops(read, !stages, !micro_batches);
  if (read.named && !is_order_of_its_name(read))
    return bad_input(
        source + "#/schedule",
        fmt::format("is '{}', but the ranks are not in the order of that schedule", spelt(read.kind)),
        "leave the key out for an order made by hand");
  return read;
}

}  // namespace pipeplan
