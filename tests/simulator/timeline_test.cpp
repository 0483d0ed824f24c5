#include "simulator/timeline.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "simulator/check_timeline.hpp"
#include "simulator/simulate.hpp"
#include "tests/simulator/pipelines.hpp"

using namespace pipeplan;

namespace {

Timeline random_timeline(std::uint64_t seed) {
  test::Random random(seed);
  const std::int64_t stages = random.between(1, 5);
  const Schedule schedule = test::random_schedule(random, stages);
  return simulate(schedule, test::random_costs(random, stages)).value();
}

}  // namespace

TEST_CASE("timeline document: writing then reading gives an equal timeline") {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    CAPTURE(seed);
    const Timeline timeline = random_timeline(seed);
    const auto json = parse_json(document_text(to_json(timeline)), "t.json");
    CHECK(timeline_from_json(json.value(), "t.json").value() == timeline);
  }
}

TEST_CASE("timeline document: every fault names its place") {
  const PipelineCosts costs = test::uniform_costs(2, test::stage_times(10, 10, 10), 5);
  const Json good = to_json(simulate(make_schedule(ScheduleKind::gpipe, 2, 2), costs).value());
  const auto place_of = [&](const char* pointer, const Json& value) {
    Json bad = good;
    bad[Json::json_pointer(pointer)] = value;
    const auto timeline = timeline_from_json(bad, "t");
    REQUIRE_FALSE(timeline.has_value());
    return timeline.error().where;
  };
  CHECK(place_of("/schema", "pipeplan.timeline/9") == "t#/schema");
  CHECK(place_of("/iteration_ns", 1) == "t#/iteration_ns");
  CHECK(place_of("/spans/1/op", "Y0.0") == "t#/spans/1/op");
  CHECK(place_of("/spans/1/rank", 2) == "t#/spans/1/rank");
  CHECK(place_of("/spans/1/end_ns", 0) == "t#/spans/1/end_ns");
  CHECK(place_of("/spans/1/end_ns", 1000000) == "t#/spans/1/end_ns");
  CHECK(place_of("/spans/0/start_ns", -1) == "t#/spans/0/start_ns");
  CHECK(place_of("/spans/0/colour", "red") == "t#/spans/0/colour");
  CHECK(place_of("/transfers/0/direction", "up") == "t#/transfers/0/direction");
  CHECK(place_of("/transfers/0/bytes", 1.5) == "t#/transfers/0/bytes");
  CHECK(place_of("/memory/1/rank", 0) == "t#/memory/1/rank");
  CHECK(place_of("/memory/0/memory_items/weights_bytes", nullptr) ==
        "t#/memory/0/memory_items/weights_bytes");
  CHECK(place_of("/memory/0/steps/0/at_ns", "0") == "t#/memory/0/steps/0/at_ns");
  CHECK(place_of("/memory", Json::array()) == "t#/memory");
}

TEST_CASE("timeline document: spans out of order are refused") {
  const PipelineCosts costs = test::uniform_costs(1, test::stage_times(10, 10, 10));
  Json json = to_json(simulate(make_schedule(ScheduleKind::gpipe, 1, 2), costs).value());
  std::swap(json["spans"][1], json["spans"][2]);
  CHECK(timeline_from_json(json, "t").error().where == "t#/spans/2/start_ns");
}

TEST_CASE(
    "early_starts: a simulated timeline has none, and one op moved before its input is the one that is "
    "named") {
  Timeline timeline =
      simulate(make_schedule(ScheduleKind::gpipe, 3, 1), test::uniform_costs(3, test::stage_times(10, 10, 0)))
          .value();
  CHECK(early_starts(timeline).empty());
  Span& last = timeline.spans.back();
  REQUIRE(last.op == Op{OpKind::backward, StageId{0}, MicrobatchId{0}});
  last.start = Nanoseconds{10 + 10 + 10 + 10 + 9};  // X1.0 ends at 50
  const auto early = early_starts(timeline);
  REQUIRE(early.size() == 1);
  CHECK(early_start_text(early[0]) ==
        "X0.0 on rank 0 starts at 49 ns, but X1.0 on rank 1, which it needs, ends at 50 ns");
}
