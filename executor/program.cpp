#include "executor/program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "models/base/assert.hpp"
#include "simulator/check_schedule.hpp"

namespace pipeplan {
namespace {

// What passes into a stage: activations from the stage before or gradients from the stage behind.
struct Flow {
  bool gradient = false;
  StageId into;
  friend auto operator<=>(const Flow&, const Flow&) = default;
};

// One tensor in its flow.
struct Tensor {
  Flow flow;
  MicrobatchId micro_batch;
  friend auto operator<=>(const Tensor&, const Tensor&) = default;
};

std::optional<Tensor> sent_by(const Op& op, std::int64_t stage_count) {
  if (op.kind == OpKind::forward && op.stage.value + 1 < stage_count)
    return Tensor{{false, op.stage.next()}, op.micro_batch};
  if (sends_gradient(op.kind) && op.stage.value > 0)
    return Tensor{{true, op.stage.previous()}, op.micro_batch};
  return std::nullopt;
}

std::optional<Tensor> taken_by(const Op& op, std::int64_t stage_count) {
  const auto input = stage_input(op, stage_count);
  if (!input) return std::nullopt;
  return Tensor{{input->gradient, op.stage}, op.micro_batch};
}

// The place of every tensor in its flow, in the order of sending.
using Sequences = std::map<Tensor, std::int64_t>;

Sequences sending_order(const Schedule& schedule) {
  Sequences sequences;
  std::map<Flow, std::int64_t> sent;
  for (const auto& row : schedule.ranks)
    for (const Op& op : row)
      if (const auto tensor = sent_by(op, schedule.stage_count)) sequences[*tensor] = sent[tensor->flow]++;
  return sequences;
}

Result<void> check_taking_order(const Schedule& schedule, const Sequences& sequences) {
  std::map<Flow, std::int64_t> taken;
  for (const auto& row : schedule.ranks)
    for (const Op& op : row) {
      const auto tensor = taken_by(op, schedule.stage_count);
      if (!tensor || taken[tensor->flow]++ == sequences.at(*tensor)) continue;
      return bad_input("schedule",
                       fmt::format("{} takes its tensor out of the order of sending", op_text(op)),
                       "channels between stages are queues: let both stages use one order");
    }
  return {};
}

Result<void> check_replication(const Schedule& schedule, const Replication& replication) {
  PIPEPLAN_ASSERT(replication.replicas.size() == schedule.ranks.size() && replication.data_parallel >= 1);
  for (const RankId rank : ids<RankId>(replication.replicas.size())) {
    const std::int64_t replicas = replication.replicas[rank];
    if (replicas >= 1 && replication.micro_batch_size % replicas == 0) continue;
    return bad_input("plan",
                     fmt::format("rank {} has {} replicas, wanted a divisor of the micro-batch size {}",
                                 rank.value, replicas, replication.micro_batch_size));
  }
  return {};
}

class Compiler {
 public:
  Compiler(const Schedule& schedule, const Replication& replication, const Sequences& sequences)
      : schedule_(schedule), replication_(replication), sequences_(sequences) {}

  Program compile() {
    program_.homes = stage_homes(schedule_);
    list_workers();
    for (const auto& row : schedule_.ranks)
      for (const Op& op : row)
        if (op.kind == OpKind::recompute) recomputed_.insert({op.stage, op.micro_batch});
    for (const WorkerId worker : ids<WorkerId>(program_.workers.size())) append_worker(worker);
    for (const WorkerId worker : ids<WorkerId>(program_.workers.size())) connect_inputs(worker);
    for (const StageId stage : ids<StageId>(program_.homes.size())) connect_peers(stage);
    return std::move(program_);
  }

 private:
  // The commands of a stage on one worker that its peers wait for.
  struct Closing {
    CommandId last_backward, reduce_scatter, all_gather, step;
  };

  void list_workers() {
    PerId<RankId, std::int64_t> before;  // workers of lower ranks in the same copy
    for (const std::int64_t replicas : replication_.replicas) {
      before.push_back(workers_per_copy_);
      workers_per_copy_ += replicas;
    }
    first_worker_ = before;
    for (std::int64_t copy = 0; copy < replication_.data_parallel; ++copy)
      for (const RankId rank : ids<RankId>(schedule_.ranks.size()))
        for (std::int64_t replica = 0; replica < replication_.replicas[rank]; ++replica)
          program_.workers.push_back({rank, replica, copy, replication_.replicas[rank]});
    program_.order = PerId<WorkerId, std::vector<CommandId>>(program_.workers.size());
    program_.peers = PerId<StageId, std::vector<WorkerId>>(program_.homes.size());
    for (const StageId stage : ids<StageId>(program_.homes.size()))
      for (const WorkerId worker : ids<WorkerId>(program_.workers.size()))
        if (program_.workers[worker].rank == program_.homes[stage]) program_.peers[stage].push_back(worker);
  }

  [[nodiscard]] WorkerId worker_at(RankId rank, std::int64_t replica, std::int64_t copy) const {
    return id_of<WorkerId>(
        static_cast<std::size_t>(copy * workers_per_copy_ + first_worker_[rank] + replica));
  }

  void append_worker(WorkerId worker) {
    const auto& row = schedule_.ranks[program_.workers[worker].rank];
    for (const Op& op : row) {
      append_compute(worker, op);
      if (const auto tensor = sent_by(op, schedule_.stage_count)) append_sends(worker, op, *tensor);
    }
    const std::vector<StageId> stages = by_last_backward(row);
    for (const StageId stage : stages) {
      if (program_.peers[stage].size() < 2) continue;
      closing(worker, stage).reduce_scatter =
          append(worker, CommandKind::reduce_scatter, {.stage = stage}).id;
      closing(worker, stage).all_gather = append(worker, CommandKind::all_gather, {.stage = stage}).id;
    }
    for (const StageId stage : stages)
      closing(worker, stage).step = append(worker, CommandKind::step, {.stage = stage}).id;
  }

  static std::vector<StageId> by_last_backward(const std::vector<Op>& row) {
    std::vector<StageId> stages;
    for (std::size_t i = row.size(); i-- > 0;)
      if (releases_activations(row[i].kind) && std::ranges::find(stages, row[i].stage) == stages.end())
        stages.push_back(row[i].stage);
    std::ranges::reverse(stages);
    return stages;
  }

  Closing& closing(WorkerId worker, StageId stage) { return closings_[{worker, stage}]; }

  Command& append(WorkerId worker, CommandKind kind, const Op& op) {
    const auto id = id_of<CommandId>(program_.commands.size());
    program_.commands.push_back({.id = id, .kind = kind, .op = op, .waits = {}});
    program_.order[worker].push_back(id);
    return program_.commands.back();
  }

  void append_compute(WorkerId worker, const Op& op) {
    Command& compute = append(worker, CommandKind::compute, op);
    if (const auto tensor = taken_by(op, schedule_.stage_count)) compute.sequence = sequences_.at(*tensor);
    compute.recomputed_apart = sends_gradient(op.kind) && recomputed_.contains({op.stage, op.micro_batch});
    if (releases_activations(op.kind)) closing(worker, op.stage).last_backward = compute.id;
  }

  // A part to every worker of the receiving rank that has some of this worker's samples.
  void append_sends(WorkerId worker, const Op& op, const Tensor& tensor) {
    const Worker& from = program_.workers[worker];
    const RankId receiver = program_.homes[tensor.flow.into];
    const std::int64_t theirs = replication_.micro_batch_size / replication_.replicas[receiver];
    const std::int64_t mine = replication_.micro_batch_size / from.replica_count;
    const std::int64_t first = from.replica * mine;
    for (std::int64_t replica = first / theirs; replica * theirs < first + mine; ++replica) {
      const std::int64_t begin = std::max(first, replica * theirs);
      const std::int64_t count = std::min(first + mine, (replica + 1) * theirs) - begin;
      Command& send = append(worker, CommandKind::send, op);
      send.sequence = sequences_.at(tensor);
      send.target = worker_at(receiver, replica, from.copy);
      send.taken = {.first = begin - first, .count = count};
      send.placed = {.first = begin - replica * theirs, .count = count};
      if (send.target != worker) arrivals_[{send.target, tensor}].push_back(send.id);
    }
  }

  void connect_inputs(WorkerId worker) {
    for (const CommandId id : program_.order[worker]) {
      Command& command = program_.commands[id.index()];
      if (command.kind != CommandKind::compute) continue;
      const auto tensor = taken_by(command.op, schedule_.stage_count);
      if (!tensor) continue;
      const auto parts = arrivals_.find({worker, *tensor});
      if (parts != arrivals_.end()) command.waits = parts->second;
    }
  }

  // A peer may be read from while it sums and until all have gathered, so it steps after that.
  void connect_peers(StageId stage) {
    if (program_.peers[stage].size() < 2) return;
    for (const WorkerId worker : program_.peers[stage])
      for (const WorkerId peer : program_.peers[stage]) {
        if (peer == worker) continue;
        const Closing& mine = closing(worker, stage);
        const Closing& theirs = closing(peer, stage);
        wait_for(mine.reduce_scatter, theirs.last_backward);
        wait_for(mine.all_gather, theirs.reduce_scatter);
        wait_for(mine.step, theirs.all_gather);
      }
  }

  void wait_for(CommandId command, CommandId awaited) {
    program_.commands[command.index()].waits.push_back(awaited);
  }

  const Schedule& schedule_;
  const Replication& replication_;
  const Sequences& sequences_;
  Program program_;
  PerId<RankId, std::int64_t> first_worker_;
  std::int64_t workers_per_copy_ = 0;
  std::set<std::pair<StageId, MicrobatchId>> recomputed_;
  std::map<std::pair<WorkerId, Tensor>, std::vector<CommandId>> arrivals_;
  std::map<std::pair<WorkerId, StageId>, Closing> closings_;
};

}  // namespace

Replication replication(const Plan& plan) {
  Replication result{.replicas = PerId<RankId, std::int64_t>(static_cast<std::size_t>(plan.rank_count()), 1),
                     .data_parallel = plan.data_parallel,
                     .micro_batch_size = plan.micro_batch_size};
  for (const StagePlan& stage : plan.stages) result.replicas[stage.rank] = stage.replicas;
  return result;
}

Replication no_replication(const Schedule& schedule) {
  return {.replicas = PerId<RankId, std::int64_t>(schedule.ranks.size(), 1)};
}

Result<Program> compile(const Schedule& schedule, const Replication& replication) {
  PIPEPLAN_CHECK(check_schedule(schedule));
  PIPEPLAN_CHECK(check_replication(schedule, replication));
  const Sequences sequences = sending_order(schedule);
  PIPEPLAN_CHECK(check_taking_order(schedule, sequences));
  return Compiler(schedule, replication, sequences).compile();
}

}  // namespace pipeplan
