#include "executor/program.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "simulator/schedule.hpp"
#include "tests/executor/orders.hpp"

namespace pipeplan {
namespace {

std::size_t count(const Program& program, CommandKind kind) {
  return static_cast<std::size_t>(std::ranges::count(program.commands, kind, &Command::kind));
}

Result<Program> compile_alone(const Schedule& schedule) {
  return compile(schedule, no_replication(schedule));
}

// Which commands have surely ended when one starts.
class Precedence {
 public:
  explicit Precedence(const Program& program) : program_(program) {
    for (const auto& order : program.order)
      for (std::size_t i = 1; i < order.size(); ++i) before_[order[i]] = order[i - 1];
  }
  [[nodiscard]] bool holds(CommandId earlier, CommandId later) const {
    std::set<CommandId> seen;
    std::vector<CommandId> open{later};
    while (!open.empty()) {
      const CommandId id = open.back();
      open.pop_back();
      if (id == earlier) return true;
      if (!seen.insert(id).second) continue;
      if (const auto it = before_.find(id); it != before_.end()) open.push_back(it->second);
      const auto& waits = program_.commands[id.index()].waits;
      open.insert(open.end(), waits.begin(), waits.end());
    }
    return false;
  }

 private:
  const Program& program_;
  std::map<CommandId, CommandId> before_;
};

CommandId find(const Program& program, WorkerId worker, CommandKind kind, StageId stage) {
  for (const CommandId id : program.order[worker]) {
    const Command& command = program.commands[id.index()];
    if (command.kind == kind && command.op.stage == stage) return id;
  }
  FAIL("no such command");
  return {};
}

}  // namespace

TEST_CASE("compile: p stages and m micro-batches give 2 p m ops, 2 (p-1) m sends and a step per rank") {
  for (std::int64_t p = 1; p <= 4; ++p) {
    for (std::int64_t m = 1; m <= 5; ++m) {
      const auto program = compile_alone(make_schedule(ScheduleKind::one_f_one_b, p, m));
      REQUIRE(program.has_value());
      CHECK(count(*program, CommandKind::compute) == static_cast<std::size_t>(2 * p * m));
      CHECK(count(*program, CommandKind::send) == static_cast<std::size_t>(2 * (p - 1) * m));
      CHECK(count(*program, CommandKind::step) == static_cast<std::size_t>(p));
      CHECK(count(*program, CommandKind::reduce_scatter) == 0);
    }
  }
}

TEST_CASE("compile: an op waits for exactly the send of the tensor it takes in") {
  const auto program = compile_alone(make_schedule(ScheduleKind::gpipe, 3, 2));
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

TEST_CASE("compile: workers are listed by copy, rank and replica, peers by copy and replica") {
  const Schedule schedule = make_schedule(ScheduleKind::gpipe, 2, 1);
  const auto program = compile(schedule, {.replicas = {1, 2}, .data_parallel = 2, .micro_batch_size = 4});
  REQUIRE(program.has_value());
  const PerId<WorkerId, Worker> wanted{{RankId{0}, 0, 0, 1}, {RankId{1}, 0, 0, 2}, {RankId{1}, 1, 0, 2},
                                       {RankId{0}, 0, 1, 1}, {RankId{1}, 0, 1, 2}, {RankId{1}, 1, 1, 2}};
  CHECK(program->workers == wanted);
  CHECK(program->peers[StageId{0}] == std::vector{WorkerId{0}, WorkerId{3}});
  CHECK(program->peers[StageId{1}] == std::vector{WorkerId{1}, WorkerId{2}, WorkerId{4}, WorkerId{5}});
}

TEST_CASE("compile: 2 senders and 3 receivers of 6 samples exchange 4 parts, each sample once") {
  const Schedule schedule = make_schedule(ScheduleKind::gpipe, 2, 1);
  const auto program = compile(schedule, {.replicas = {2, 3}, .data_parallel = 1, .micro_batch_size = 6});
  REQUIRE(program.has_value());
  struct Part {
    WorkerId target;
    SampleRange taken, placed;
    bool operator==(const Part&) const = default;
  };
  std::vector<Part> parts;
  for (const Command& command : program->commands)
    if (command.kind == CommandKind::send && command.op.kind == OpKind::forward)
      parts.push_back({command.target, command.taken, command.placed});
  // Sender 0 has samples 0 to 2, receivers 2 to 4 have {0, 1}, {2, 3}, {4, 5}.
  const std::vector<Part> wanted{{WorkerId{2}, {0, 2}, {0, 2}},
                                 {WorkerId{3}, {2, 1}, {0, 1}},
                                 {WorkerId{3}, {0, 1}, {1, 1}},
                                 {WorkerId{4}, {1, 2}, {0, 2}}};
  CHECK(parts == wanted);
}

TEST_CASE("compile: whatever the replicas, every receiver gets each of its samples once from who has it") {
  for (const std::int64_t senders : {1, 2, 3, 4, 6, 12}) {
    for (const std::int64_t receivers : {1, 2, 3, 4, 6, 12}) {
      INFO(senders << " senders, " << receivers << " receivers");
      const Schedule schedule = make_schedule(ScheduleKind::one_f_one_b, 2, 2);
      const auto program =
          compile(schedule, {.replicas = {senders, receivers}, .data_parallel = 2, .micro_batch_size = 12});
      REQUIRE(program.has_value());
      for (const WorkerId worker : ids<WorkerId>(program->workers.size())) {
        const Worker& taker = program->workers[worker];
        for (const CommandId id : program->order[worker]) {
          const Command& command = program->commands[id.index()];
          if (command.kind != CommandKind::compute || command.waits.empty()) continue;
          std::multiset<std::int64_t> got, wanted;
          for (const CommandId wait : command.waits) {
            const Command& send = program->commands[wait.index()];
            CHECK(send.target == worker);
            CHECK(send.sequence == command.sequence);
            for (std::int64_t i = 0; i < send.placed.count; ++i) got.insert(send.placed.first + i);
            CHECK(send.taken.count == send.placed.count);
          }
          for (std::int64_t i = 0; i < 12 / taker.replica_count; ++i) wanted.insert(i);
          CHECK(got == wanted);
        }
      }
    }
  }
}

TEST_CASE("compile: gradients are read only when they are whole, and never while they are written") {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    INFO("seed " << seed);
    test::Random random(seed);
    test::OrderShape shape{
        .ranks = random.between(1, 2), .micro_batches = random.between(1, 3), .stages = {}};
    for (std::int64_t stage = shape.ranks * random.between(1, 2); stage > 0; --stage)
      shape.stages.push_back(static_cast<test::BackwardForm>(random.between(0, 1)));
    Replication replication{.data_parallel = random.between(1, 2), .micro_batch_size = 2};
    for (std::int64_t rank = 0; rank < shape.ranks; ++rank)
      replication.replicas.push_back(random.between(1, 2));
    const Schedule schedule = test::queued_order(random, shape);
    const auto program = compile(schedule, replication);
    REQUIRE(program.has_value());
    const Precedence precedes(*program);
    for (const StageId stage : ids<StageId>(program->peers.size())) {
      const auto& peers = program->peers[stage];
      if (peers.size() < 2) continue;
      for (const WorkerId a : peers) {
        const CommandId sum = find(*program, a, CommandKind::reduce_scatter, stage);
        const CommandId gather = find(*program, a, CommandKind::all_gather, stage);
        for (const WorkerId b : peers) {
          for (const CommandId id : program->order[b]) {
            const Command& command = program->commands[id.index()];
            if (command.kind == CommandKind::compute && command.op.stage == stage &&
                releases_activations(command.op.kind))
              CHECK(precedes.holds(id, sum));
          }
          CHECK(precedes.holds(find(*program, b, CommandKind::reduce_scatter, stage), gather));
          CHECK(precedes.holds(gather, find(*program, b, CommandKind::step, stage)));
        }
      }
    }
  }
}

TEST_CASE("compile: between stages of one rank a tensor is sent to the worker itself, and nothing waits") {
  test::Random random(1);
  const Schedule schedule = test::queued_order(
      random, {.ranks = 1, .micro_batches = 2, .stages = std::vector(2, test::BackwardForm::fused)});
  const auto program = compile_alone(schedule);
  REQUIRE(program.has_value());
  CHECK(count(*program, CommandKind::send) == 2 * 2);
  CHECK(count(*program, CommandKind::step) == 2);
  for (const Command& command : program->commands) {
    CHECK(command.waits.empty());
    if (command.kind == CommandKind::send) CHECK(command.target == WorkerId{0});
  }
}

TEST_CASE("compile: a backward knows whether an R op has run its forward again") {
  Schedule schedule = make_schedule(ScheduleKind::gpipe, 1, 2);
  auto ops = schedule.ranks[RankId{0}];  // F0.0 F0.1 X0.1 X0.0
  ops.insert(ops.begin() + 3, Op{OpKind::recompute, StageId{0}, MicrobatchId{0}});
  schedule.ranks[RankId{0}] = ops;
  schedule.named = false;
  const auto program = compile_alone(schedule);
  REQUIRE(program.has_value());
  for (const Command& command : program->commands)
    CHECK(command.recomputed_apart ==
          (command.op.kind == OpKind::backward && command.op.micro_batch == MicrobatchId{0}));
}

TEST_CASE("compile: stages that take tensors in another order than they are sent are refused") {
  Schedule schedule = make_schedule(ScheduleKind::gpipe, 2, 2);
  auto& row = schedule.ranks[RankId{1}];
  std::swap(row[0], row[1]);
  const auto program = compile_alone(schedule);
  REQUIRE(!program.has_value());
  CHECK(program.error().message.find("out of the order of sending") != std::string::npos);
}

TEST_CASE("compile: replicas that do not divide the micro-batch are refused") {
  const Schedule schedule = make_schedule(ScheduleKind::gpipe, 2, 2);
  const auto program = compile(schedule, {.replicas = {1, 4}, .data_parallel = 1, .micro_batch_size = 6});
  REQUIRE(!program.has_value());
  CHECK(program.error().message == "rank 1 has 4 replicas, wanted a divisor of the micro-batch size 6");
}

TEST_CASE("compile: a faulty schedule is refused with the checker error") {
  Schedule schedule = make_schedule(ScheduleKind::gpipe, 2, 2);
  schedule.ranks[RankId{0}].pop_back();
  CHECK(!compile_alone(schedule).has_value());
}

}  // namespace pipeplan
