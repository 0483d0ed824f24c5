#include "executor/program.hpp"

#include <map>
#include <tuple>

#include "simulator/check_schedule.hpp"

namespace pipeplan {
namespace {

// A tensor between two stages is known by the op that makes it: F of the stage before, X or B of the stage
// behind.
bool makes_gradient(const Op& op) { return op.kind == OpKind::backward || op.kind == OpKind::backward_input; }

class Compiler {
 public:
  explicit Compiler(const Schedule& schedule) : schedule_(schedule) {}

  Result<Program> compile() {
    program_.ranks = PerId<RankId, std::vector<CommandId>>(schedule_.ranks.size());
    for (const RankId rank : ids<RankId>(schedule_.ranks.size())) append_rank(rank);
    PIPEPLAN_CHECK(connect());
    return std::move(program_);
  }

 private:
  using TensorKey = std::tuple<bool, std::int32_t, std::int32_t>;  // gradient, receiving stage, micro-batch
  using QueueKey = std::pair<bool, std::int32_t>;                  // gradient, receiving stage

  void append_rank(RankId rank) {
    for (const Op& op : schedule_.ranks[rank]) {
      append(rank, CommandKind::compute, op);
      if (const auto receiver = receiving_stage(op)) append_send(rank, op, *receiver);
    }
    const Op last = schedule_.ranks[rank].empty() ? Op{} : schedule_.ranks[rank].back();
    append(rank, CommandKind::step, last);
  }

  [[nodiscard]] std::optional<std::int32_t> receiving_stage(const Op& op) const {
    if (op.kind == OpKind::forward && op.stage.value + 1 < schedule_.stage_count) return op.stage.value + 1;
    if (makes_gradient(op) && op.stage.value > 0) return op.stage.value - 1;
    return std::nullopt;
  }

  Command& append(RankId rank, CommandKind kind, const Op& op) {
    const auto id = id_of<CommandId>(program_.commands.size());
    program_.commands.push_back({.id = id, .kind = kind, .op = op, .waits = {}});
    program_.ranks[rank].push_back(id);
    return program_.commands.back();
  }

  void append_send(RankId rank, const Op& op, std::int32_t receiver) {
    Command& send = append(rank, CommandKind::send, op);
    send.sequence = sent_[{makes_gradient(op), receiver}]++;
    sends_[{makes_gradient(op), receiver, op.micro_batch.value}] = send.id;
  }

  // Every op that takes in a tensor waits for its send, and takes it in the order of sending.
  Result<void> connect() {
    std::map<QueueKey, std::int64_t> taken;
    for (const RankId rank : ids<RankId>(program_.ranks.size())) {
      for (const CommandId id : program_.ranks[rank]) {
        Command& command = program_.commands[id.index()];
        if (command.kind != CommandKind::compute) continue;
        const bool gradient = makes_gradient(command.op);
        const auto send = sends_.find({gradient, command.op.stage.value, command.op.micro_batch.value});
        if (send == sends_.end() || (!gradient && command.op.kind != OpKind::forward)) continue;
        command.waits.push_back(send->second);
        command.sequence = taken[{gradient, command.op.stage.value}]++;
        if (command.sequence != program_.commands[send->second.index()].sequence)
          return bad_input("schedule", op_text(command.op) + " takes its tensor out of the order of sending",
                           "channels between stages are queues: let both stages use one order");
      }
    }
    return {};
  }

  const Schedule& schedule_;
  Program program_;
  std::map<QueueKey, std::int64_t> sent_;
  std::map<TensorKey, CommandId> sends_;
};

}  // namespace

Result<Program> compile(const Schedule& schedule) {
  PIPEPLAN_CHECK(check_schedule(schedule));
  return Compiler(schedule).compile();
}

}  // namespace pipeplan
