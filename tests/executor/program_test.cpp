#include "executor/program.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "simulator/schedule.hpp"

namespace pipeplan {
namespace {

std::size_t count(const Program& program, CommandKind kind) {
  return static_cast<std::size_t>(std::ranges::count(program.commands, kind, &Command::kind));
}

}  // namespace

TEST_CASE("compile: p stages and m micro-batches give 2 p m ops, 2 (p-1) m sends and a step per rank") {
  for (std::int64_t p = 1; p <= 4; ++p) {
    for (std::int64_t m = 1; m <= 5; ++m) {
      const auto program = compile(make_schedule(ScheduleKind::one_f_one_b, p, m));
      REQUIRE(program.has_value());
      CHECK(count(*program, CommandKind::compute) == static_cast<std::size_t>(2 * p * m));
      CHECK(count(*program, CommandKind::send) == static_cast<std::size_t>(2 * (p - 1) * m));
      CHECK(count(*program, CommandKind::step) == static_cast<std::size_t>(p));
    }
  }
}

TEST_CASE("compile: an op waits for exactly the send of the tensor it takes in") {
  const auto program = compile(make_schedule(ScheduleKind::gpipe, 3, 2));
  REQUIRE(program.has_value());
  for (const Command& command : program->commands) {
    if (command.kind != CommandKind::compute) continue;
    const bool forward = command.op.kind == OpKind::forward;
    const bool takes = forward ? command.op.stage.value > 0 : command.op.stage.value < 2;
    REQUIRE(command.waits.size() == (takes ? 1 : 0));
    if (!takes) continue;
    const Command& send = program->commands[command.waits.front().index()];
    CHECK(send.kind == CommandKind::send);
    CHECK(send.op.micro_batch == command.op.micro_batch);
    CHECK(send.op.stage.value == command.op.stage.value + (forward ? -1 : 1));
    CHECK(send.sequence == command.sequence);
  }
}

TEST_CASE("compile: stages that take tensors in another order than they are sent are refused") {
  Schedule schedule = make_schedule(ScheduleKind::gpipe, 2, 2);
  auto& row = schedule.ranks[RankId{1}];
  std::swap(row[0], row[1]);
  const auto program = compile(schedule);
  REQUIRE(!program.has_value());
  CHECK(program.error().message.find("out of the order of sending") != std::string::npos);
}

TEST_CASE("compile: a faulty schedule is refused with the checker error") {
  Schedule schedule = make_schedule(ScheduleKind::gpipe, 2, 2);
  schedule.ranks[RankId{0}].pop_back();
  CHECK(!compile(schedule).has_value());
}

}  // namespace pipeplan
