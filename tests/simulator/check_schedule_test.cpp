#include "simulator/check_schedule.hpp"

#include <doctest/doctest.h>

#include <sstream>

#include "tests/simulator/pipelines.hpp"

using namespace pipeplan;

namespace {

// Rows as text, one string per rank.
Schedule order(std::int64_t stages, std::int64_t micro_batches, const std::vector<std::string>& rows) {
  Schedule schedule{ScheduleKind::gpipe, false, stages, micro_batches, {}};
  for (const std::string& row : rows) {
    std::vector<Op> ops;
    std::istringstream words(row);
    for (std::string word; words >> word;) ops.push_back(parse_op(word, "test").value());
    schedule.ranks.push_back(ops);
  }
  return schedule;
}

Error fault_of(const Schedule& schedule) {
  const auto checked = check_schedule(schedule, "s.json");
  REQUIRE_FALSE(checked.has_value());
  CHECK(checked.error().code == ErrorCode::bad_input);
  return checked.error();
}

}  // namespace

TEST_CASE("check_schedule: every named order for p in 1..9 and m in 1..17 can run") {
  for (const ScheduleKind kind : test::all_schedules)
    for (std::int64_t p = 1; p <= 9; ++p)
      for (std::int64_t m = 1; m <= 17; ++m) CHECK(check_schedule(make_schedule(kind, p, m)).has_value());
}

TEST_CASE(
    "check_schedule: random legal orders can run, with fused and split backwards and several stages per "
    "rank") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    test::Random random(seed);
    const std::int64_t stages = random.between(1, 6), ranks = random.between(1, stages);
    const auto checked = check_schedule(test::random_order(random, stages, random.between(1, 6), ranks));
    CHECK(checked.has_value());
  }
}

TEST_CASE("check_schedule: a random legal order with one op taken away or doubled cannot run") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    test::Random random(seed);
    Schedule schedule = test::random_schedule(random, random.between(1, 5));
    const RankId rank = id_of<RankId>(static_cast<std::size_t>(random.between(0, schedule.stage_count - 1)));
    auto& row = schedule.ranks[rank];
    const auto place = random.between(0, static_cast<std::int64_t>(row.size()) - 1);
    if (random.coin())
      row.erase(row.begin() + place);
    else
      row.push_back(row[static_cast<std::size_t>(place)]);
    CHECK_FALSE(check_schedule(schedule).has_value());
  }
}

TEST_CASE("check_schedule: a missing op is named with the row where it belongs") {
  const Error forward = fault_of(order(2, 2, {"F0.0 F0.1 X0.0 X0.1", "F1.0 X1.0 X1.1"}));
  CHECK(forward.where == "s.json#/ranks/1");
  CHECK(forward.message == "F1.1 is missing");
  CHECK(fault_of(order(1, 2, {"F0.0 F0.1 X0.1"})).message ==
        "X0.0 is missing, and so are B and W in its place");
  CHECK(fault_of(order(1, 1, {"F0.0 B0.0"})).message == "W0.0 is missing beside its B");
  CHECK(fault_of(order(1, 1, {"F0.0 W0.0"})).message == "B0.0 is missing beside its W");
}

TEST_CASE("check_schedule: a doubled op is named with both places") {
  const Error error = fault_of(order(1, 2, {"F0.0 F0.1 F0.0 X0.0 X0.1"}));
  CHECK(error.where == "s.json#/ranks/0/2");
  CHECK(error.message == "rank 0, op 3 of 5, F0.0: is doubled, it was op 1 already");
}

TEST_CASE("check_schedule: X beside B or W is refused") {
  CHECK(fault_of(order(1, 1, {"F0.0 X0.0 B0.0"})).message ==
        "rank 0, op 3 of 3, B0.0: stands beside X0.0, wanted X alone or B and W");
  CHECK(fault_of(order(1, 1, {"F0.0 X0.0 W0.0"})).message ==
        "rank 0, op 3 of 3, W0.0: stands beside X0.0, wanted X alone or B and W");
}

TEST_CASE(
    "check_schedule: within a row F comes before its backward, B before W, and R between F and backward") {
  CHECK(fault_of(order(1, 1, {"X0.0 F0.0"})).message ==
        "rank 0, op 1 of 2, X0.0: comes before F0.0 (op 2), which it needs");
  CHECK(fault_of(order(1, 1, {"F0.0 W0.0 B0.0"})).where == "s.json#/ranks/0/1");
  CHECK(fault_of(order(1, 1, {"F0.0 X0.0 R0.0"})).where == "s.json#/ranks/0/1");
  CHECK(fault_of(order(1, 1, {"R0.0 F0.0 X0.0"})).where == "s.json#/ranks/0/0");
  CHECK(check_schedule(order(1, 1, {"F0.0 R0.0 B0.0 W0.0"})).has_value());
}

TEST_CASE("check_schedule: between R and its X nothing of the stage may run that overwrites it") {
  CHECK(check_schedule(order(1, 2, {"F0.0 F0.1 R0.0 X0.0 R0.1 X0.1"})).has_value());
  const Error forward = fault_of(order(1, 2, {"F0.0 R0.0 F0.1 X0.0 X0.1"}));
  CHECK(forward.where == "s.json#/ranks/0/2");
  CHECK(forward.message ==
        "rank 0, op 3 of 5, F0.1: overwrites what R0.0 has recomputed for its X, wanted that X before it");
  CHECK(fault_of(order(1, 2, {"F0.0 F0.1 R0.0 R0.1 X0.0 X0.1"})).where == "s.json#/ranks/0/3");
  CHECK(fault_of(order(1, 2, {"F0.0 F0.1 R0.0 X0.1 X0.0"})).where == "s.json#/ranks/0/3");
  // Another stage of the rank has activations of its own.
  CHECK(check_schedule(order(2, 1, {"F0.0 R0.0 F1.0 R1.0 X1.0 X0.0"})).has_value());
}

TEST_CASE("check_schedule: a stage on two ranks is refused") {
  CHECK(fault_of(order(1, 2, {"F0.0 X0.0", "F0.1 X0.1"})).message ==
        "rank 1, op 1 of 2, F0.1: stage 0 is on rank 0 already, wanted each stage on one rank (and 3 more "
        "faults)");
}

TEST_CASE("check_schedule: ops outside the counts, empty rows and impossible counts are refused") {
  CHECK(fault_of(order(1, 1, {"F0.0 X0.0 F1.0"})).message ==
        "rank 0, op 3 of 3, F1.0: stage 1, wanted one of 1");
  CHECK(fault_of(order(1, 1, {"F0.0 X0.0 F0.1"})).message ==
        "rank 0, op 3 of 3, F0.1: micro-batch 1, wanted one of 1");
  CHECK(fault_of(order(1, 1, {"F0.0 X0.0", ""})).message ==
        "rank 1 has no ops, wanted a stage on every rank");
  CHECK(fault_of(order(1'000'000'000, 1'000'000'000, {"F0.0 X0.0"})).where == "s.json#/ranks");
  CHECK(fault_of(order(0, 1, {"F0.0 X0.0"})).where == "s.json#/ranks");
  Schedule negative = order(1, 1, {"F0.0 X0.0"});
  negative.ranks[RankId{0}][0].stage = StageId{-1};
  CHECK(fault_of(negative).where == "s.json#/ranks/0/0");
}

TEST_CASE("check_schedule: all faults are counted, the first is told") {
  CHECK(fault_of(order(2, 1, {"F0.0", "X1.0"})).message ==
        "X0.0 is missing, and so are B and W in its place (and 1 more fault)");
}

TEST_CASE("check_schedule: a deadlock names the cycle op by op, from its lowest rank") {
  // Rank 0 wants the gradient of 0 before it sends 1; rank 1 wants 1 before it works on that gradient.
  const Error error = fault_of(order(2, 2, {"F0.0 X0.0 F0.1 X0.1", "F1.0 F1.1 X1.1 X1.0"}));
  CHECK(error.where == "s.json#/ranks/0/1");
  CHECK(error.message ==
        "deadlock: rank 0 X0.0 waits for rank 1 X1.0 behind rank 1 F1.1; rank 1 F1.1 waits for rank 0 F0.1 "
        "behind "
        "rank 0 X0.0");
}

TEST_CASE("check_schedule: a deadlock shows the cycle alone, not the ranks that wait for it") {
  const Error error =
      fault_of(order(3, 2, {"F0.0 X0.0 F0.1 X0.1", "F1.0 X1.0 F1.1 X1.1", "F2.0 F2.1 X2.0 X2.1"}));
  CHECK(error.where == "s.json#/ranks/1/1");
  CHECK(error.message ==
        "deadlock: rank 1 X1.0 waits for rank 2 X2.0 behind rank 2 F2.1; rank 2 F2.1 waits for rank 1 F1.1 "
        "behind "
        "rank 1 X1.0");
}

TEST_CASE("check_schedule: a deadlock round a ring of three ranks and one within a rank are found") {
  const Error ring = fault_of(order(4, 1, {"F3.0 F0.0 X3.0 X0.0", "F1.0 X1.0", "F2.0 X2.0"}));
  CHECK(
      ring.message ==
      "deadlock: rank 0 F3.0 waits for rank 2 F2.0; rank 2 F2.0 waits for rank 1 F1.0; rank 1 F1.0 waits for "
      "rank 0 F0.0 behind rank 0 F3.0");
  const Error own = fault_of(order(2, 1, {"F1.0 F0.0 X1.0 X0.0"}));
  CHECK(own.message == "deadlock: rank 0 F1.0 waits for rank 0 F0.0 behind rank 0 F1.0");
}
