#include "simulator/schedule.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/simulator/pipelines.hpp"

using namespace pipeplan;

namespace {

std::string row_text(const Schedule& schedule, std::int32_t rank) {
  std::string text;
  for (const Op& op : schedule.ranks[RankId{rank}]) {
    if (!text.empty()) text += ' ';
    text += op_text(op);
  }
  return text;
}

Plan plan_of(ScheduleKind kind, std::int32_t stages, std::int64_t micro_batches) {
  Plan plan;
  plan.schedule = kind;
  plan.micro_batch_count = micro_batches;
  for (std::int32_t i = 0; i < stages; ++i)
    plan.stages.push_back({LayerId{i}, LayerId{i}, RankId{i}, {DeviceId{i}}});
  return plan;
}

Error error_of(std::string_view document) {
  const auto json = parse_json(document, "s.json");
  REQUIRE(json.has_value());
  const auto schedule = schedule_from_json(*json, "s.json");
  REQUIRE_FALSE(schedule.has_value());
  return schedule.error();
}

}  // namespace

TEST_CASE("naive: every micro-batch goes forward and back before the next one starts") {
  const Schedule schedule = make_schedule(ScheduleKind::naive, 2, 2);
  CHECK(row_text(schedule, 0) == "F0.0 X0.0 F0.1 X0.1");
  CHECK(row_text(schedule, 1) == "F1.0 X1.0 F1.1 X1.1");
}

TEST_CASE("gpipe: all forwards, then the backwards from the last micro-batch to the first") {
  const Schedule schedule = make_schedule(ScheduleKind::gpipe, 2, 3);
  CHECK(row_text(schedule, 0) == "F0.0 F0.1 F0.2 X0.2 X0.1 X0.0");
  CHECK(row_text(schedule, 1) == "F1.0 F1.1 F1.2 X1.2 X1.1 X1.0");
}

TEST_CASE("1f1b: rank r of p warms up with p-1-r forwards, then alternates, then drains") {
  const Schedule schedule = make_schedule(ScheduleKind::one_f_one_b, 3, 4);
  CHECK(row_text(schedule, 0) == "F0.0 F0.1 F0.2 X0.0 F0.3 X0.1 X0.2 X0.3");
  CHECK(row_text(schedule, 1) == "F1.0 F1.1 X1.0 F1.2 X1.1 F1.3 X1.2 X1.3");
  CHECK(row_text(schedule, 2) == "F2.0 X2.0 F2.1 X2.1 F2.2 X2.2 F2.3 X2.3");
}

TEST_CASE("1f1b: with fewer micro-batches than ranks the warm-up takes all forwards") {
  CHECK(row_text(make_schedule(ScheduleKind::one_f_one_b, 8, 2), 0) == "F0.0 F0.1 X0.0 X0.1");
  CHECK(row_text(make_schedule(ScheduleKind::one_f_one_b, 8, 1), 7) == "F7.0 X7.0");
}

TEST_CASE("make_schedule: a plan gives the order of its schedule, stages and micro-batches") {
  for (const ScheduleKind kind : test::all_schedules)
    CHECK(make_schedule(plan_of(kind, 3, 5)).value() == make_schedule(kind, 3, 5));
}

TEST_CASE("make_schedule: a plan whose stages are not on ranks of their own is refused by place") {
  Plan plan = plan_of(ScheduleKind::gpipe, 3, 2);
  plan.stages[StageId{2}].rank = RankId{0};
  const auto schedule = make_schedule(plan);
  REQUIRE_FALSE(schedule.has_value());
  CHECK(schedule.error().where == "plan#/stages/2/rank");
  CHECK(schedule.error().message == "is 0, wanted 2: one stage per rank, in order");
  CHECK(schedule.error().hint.find("--order") != std::string::npos);
}

TEST_CASE("make_schedule: early recomputation puts R before each X of the stages that recompute") {
  Plan plan = plan_of(ScheduleKind::one_f_one_b, 2, 2);
  plan.stages[StageId{0}].recompute = {LayerId{0}};
  CHECK(make_schedule(plan).value() == make_schedule(ScheduleKind::one_f_one_b, 2, 2));
  plan.recompute_mode = RecomputeMode::early;
  const Schedule schedule = make_schedule(plan).value();
  CHECK(row_text(schedule, 0) == "F0.0 F0.1 R0.0 X0.0 R0.1 X0.1");
  CHECK(row_text(schedule, 1) == "F1.0 X1.0 F1.1 X1.1");
  CHECK(schedule_from_json(to_json(schedule), "s").value() == schedule);
}

TEST_CASE("make_schedule: more ops than fit in memory are refused before they are made") {
  const auto schedule = make_schedule(plan_of(ScheduleKind::gpipe, 4, largest_document_integer));
  REQUIRE_FALSE(schedule.has_value());
  CHECK(schedule.error().where == "plan#/micro_batch_count");
  CHECK(make_schedule(plan_of(ScheduleKind::gpipe, 0, 1)).error().where == "plan#/stages");
  CHECK(make_schedule(plan_of(ScheduleKind::gpipe, 1, 0)).error().where == "plan#/micro_batch_count");
}

TEST_CASE("parse_op: reads back what op_text writes, for every kind") {
  for (const auto& entry : spellings(OpKind{}))
    for (const std::int32_t number : {0, 7, 10, 999999999}) {
      const Op op{entry.value, StageId{number}, MicrobatchId{999999999 - number}};
      CHECK(parse_op(op_text(op), "here").value() == op);
    }
}

TEST_CASE("parse_op: junk is refused with its place") {
  for (const char* junk : {"",       "F",      "F0",    "F0.",    "F.0",           "F0.0 ",
                           " F0.0",  "f0.0",   "Q0.0",  "F00.1",  "F0.01",         "F-1.0",
                           "F+1.0",  "F0.0.0", "F0,0",  "F1e3.0", "F1000000000.0", "F0.99999999999999999999",
                           "F0x1.0", "FF0.0",  "SF0.0", "0.0"}) {
    CAPTURE(junk);
    const auto op = parse_op(junk, "s.json#/ranks/1/2");
    REQUIRE_FALSE(op.has_value());
    CHECK(op.error().where == "s.json#/ranks/1/2");
    CHECK(op.error().message.starts_with("is \"" + std::string(junk) + "\", wanted an op"));
  }
}

TEST_CASE("schedule document: writing then reading gives an equal schedule") {
  for (const ScheduleKind kind : test::all_schedules) {
    const Schedule schedule = make_schedule(kind, 4, 3);
    CHECK(schedule_from_json(to_json(schedule), "s").value() == schedule);
  }
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    CAPTURE(seed);
    test::Random random(seed);
    const Schedule schedule = test::random_order(random, random.between(1, 5), random.between(1, 5), 1);
    CHECK(schedule_from_json(to_json(schedule), "s").value() == schedule);
  }
}

TEST_CASE("schedule document: rows alone are enough, the counts follow from the ops") {
  const auto json =
      parse_json(R"({"schema": "pipeplan.schedule/1", "ranks": [["F0.0", "F0.1", "X0.1", "X0.0"]]})", "s");
  const Schedule schedule = schedule_from_json(json.value(), "s").value();
  CHECK_FALSE(schedule.named);
  CHECK(schedule.stage_count == 1);
  CHECK(schedule.micro_batch_count == 2);
}

TEST_CASE("schedule document: every fault of form names its row and column") {
  const Error op = error_of(R"({"schema": "pipeplan.schedule/1", "ranks": [["F0.0"], ["F1.0", "X1.x"]]})");
  CHECK(op.where == "s.json#/ranks/1/1");
  CHECK(error_of(R"({"schema": "pipeplan.schedule/1", "ranks": [["F0.0", 7]]})").where ==
        "s.json#/ranks/0/1");
  CHECK(error_of(R"({"schema": "pipeplan.schedule/1", "ranks": [[], "F0.0"]})").where == "s.json#/ranks/1");
  CHECK(error_of(R"({"schema": "pipeplan.schedule/1", "ranks": []})").where == "s.json#/ranks");
  CHECK(error_of(R"({"schema": "pipeplan.schedule/1"})").where == "s.json#/ranks");
  CHECK(error_of(R"({"schema": "pipeplan.schedule/2", "ranks": [["F0.0", "X0.0"]]})").where ==
        "s.json#/schema");
  CHECK(error_of(R"({"schema": "pipeplan.schedule/1", "rank": [], "ranks": [["F0.0"]]})").where ==
        "s.json#/rank");
  CHECK(error_of(R"({"schema": "pipeplan.schedule/1", "schedule": "gpip", "ranks": [["F0.0"]]})").hint ==
        "did you mean 'gpipe'?");
  CHECK(error_of(R"({"schema": "pipeplan.schedule/1", "stages": 0, "ranks": [["F0.0"]]})").where ==
        "s.json#/stages");
}

TEST_CASE("schedule document: a name that the ranks do not bear out is refused, whatever the counts say") {
  Json json = to_json(make_schedule(ScheduleKind::one_f_one_b, 2, 3));
  json["schedule"] = "gpipe";
  CHECK(schedule_from_json(json, "s").error().where == "s#/schedule");
  json["schedule"] = "1f1b";
  json["micro_batches"] = 1'000'000'000;
  CHECK(schedule_from_json(json, "s").error().where == "s#/schedule");
}
