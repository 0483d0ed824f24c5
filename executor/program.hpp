#pragma once

// A schedule compiled into commands: the ops of each worker with the transfers between them made explicit,
// and for each command what it waits for. Compiled once, run every iteration, by any backend.
//
// A worker is one replica of one rank in one copy of the pipeline; all workers of a rank run the same ops.
// Replicas share out the samples of a micro-batch: replica j of r has samples [j b/r, (j+1) b/r), so that a
// tensor travels in parts from every sender to every receiver whose samples it has. Once a rank has run its
// last op, each of its stages sums its gradients with its peers in two commands (Patarasuk and Yuan 2009):
// reduce_scatter leaves each peer the sum over all peers, in their order, of its own share of the gradients;
// all_gather fetches the other shares.

#include <cstdint>
#include <optional>
#include <vector>

#include "models/base/id.hpp"
#include "simulator/schedule.hpp"

namespace pipeplan {

using CommandId = Id<struct CommandTag>;
using WorkerId = Id<struct WorkerTag>;

struct Worker {
  RankId rank;
  std::int64_t replica = 0;
  std::int64_t copy = 0;
  std::int64_t replica_count = 1;  // of the rank
  friend bool operator==(const Worker&, const Worker&) = default;
};

// How many workers run each rank, and what a micro-batch is.
struct Replication {
  PerId<RankId, std::int64_t> replicas;  // each divides the micro-batch size
  std::int64_t data_parallel = 1;
  std::int64_t micro_batch_size = 1;
};
Replication replication(const Plan& plan);
// One worker per rank.
Replication no_replication(const Schedule& schedule);

enum class CommandKind {
  compute,         // op
  send,            // the result of op to another stage's worker
  reduce_scatter,  // op.stage alone counts, as in the two below
  all_gather,
  step,
};

// Samples of a worker's share of a micro-batch.
struct SampleRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
  friend bool operator==(const SampleRange&, const SampleRange&) = default;
};

struct Command {
  CommandId id;
  CommandKind kind = CommandKind::compute;
  Op op;
  // Commands of other workers that must have finished; those before it of its own worker have.
  std::vector<CommandId> waits;
  // Of the tensor that a send delivers or a compute takes in, among those that pass into the receiving stage
  // in its direction in one iteration: which buffer of the channel it uses.
  std::int64_t sequence = 0;
  // send: to whom, and which samples of the sender's share become which of the receiver's.
  WorkerId target;
  SampleRange taken, placed;
  bool recomputed_apart = false;  // compute: an X or B whose forward an R op has run again
};

struct Program {
  PerId<WorkerId, Worker> workers;                // by (copy, rank, replica)
  std::vector<Command> commands;                  // by id
  PerId<WorkerId, std::vector<CommandId>> order;  // of execution, per worker
  // Workers that hold the same stage, in the order in which gradients are summed: by (copy, replica).
  PerId<StageId, std::vector<WorkerId>> peers;
  PerId<StageId, RankId> homes;
};

// The schedule must pass check_schedule. Tensors of a boundary must be taken in the order in which they are
// sent, since channels are queues; other orders are refused, and so are replicas that do not divide the
// micro-batch. Behind the ops of a rank stand the all-reduces of its stages, where there are peers, in the
// order of their last backwards, then their steps: no all-reduce holds back an op, as in the simulator.
Result<Program> compile(const Schedule& schedule, const Replication& replication);

}  // namespace pipeplan
