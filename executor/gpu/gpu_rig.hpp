#pragma once

// What the workers of a run on GPUs share: the queue of each, the events between them, the buffers through
// which tensors pass, and the links that are emulated. One host thread uses it.

#include <memory>

#include "executor/gpu/command_events.hpp"
#include "executor/gpu/emulated_links.hpp"
#include "executor/placed_stage.hpp"

namespace pipeplan {

struct GpuRig {
  explicit GpuRig(const Program& program) : events(program) {}

  PerId<WorkerId, GpuQueue*> queues;
  // An event of each worker for what another queue waits for at once.
  PerId<WorkerId, std::unique_ptr<GpuEvent>> handovers;
  // A queue beside each worker's that sends its gradients to peers on other GPUs; null where there are none.
  PerId<WorkerId, std::unique_ptr<GpuQueue>> couriers;
  CommandEvents events;
  GpuClock clock;
  EmulatedLinks links;
  PlacedStages stages;
};

}  // namespace pipeplan
