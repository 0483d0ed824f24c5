#pragma once

// A schedule compiled into commands: the ops of each rank with the transfers between them made explicit, and
// for each command what it waits for. Compiled once, run every iteration, by any backend.

#include <optional>
#include <vector>

#include "models/base/id.hpp"
#include "simulator/schedule.hpp"

namespace pipeplan {

using CommandId = Id<struct CommandTag>;

enum class CommandKind { compute, send, step };

struct Command {
  CommandId id;
  CommandKind kind = CommandKind::compute;
  Op op;  // compute: the op; send: the op whose result is sent; step: its stage alone counts
  // Commands on other ranks that must have finished; those before it on its own rank have.
  std::vector<CommandId> waits;
  // send: number of this tensor among those sent over its boundary in its direction; compute: that of the
  // tensor it takes in, where it takes one from another rank.
  std::int64_t sequence = 0;
};

struct Program {
  std::vector<Command> commands;                // by id
  PerId<RankId, std::vector<CommandId>> ranks;  // in the order of execution
};

// The schedule must pass check_schedule. Tensors of a boundary must be taken in the order in which they are
// sent, since channels are queues; other orders are refused.
Result<Program> compile(const Schedule& schedule);

}  // namespace pipeplan
