#pragma once

// A stage in a worker's memory: its layers with their tensors, and the channels that its neighbours write to.
// All of it comes from the worker's one arena.

#include <map>
#include <memory>
#include <utility>

#include "executor/channel.hpp"
#include "executor/worker_spec.hpp"

namespace pipeplan {

struct PlacedStage {
  Channel activations, gradients;
  std::unique_ptr<Segment> segment;
};

// Of all workers of a run.
using PlacedStages = std::map<std::pair<WorkerId, StageId>, PlacedStage>;

// Bytes that the worker's arena needs.
Bytes memory_needed(const WorkerSpec& spec);

// Places the worker's stages among `stages` and gives their parameters the first values. Processor and arena
// outlive them.
void place_stages(const WorkerSpec& spec, Processor& processor, Arena& arena, PlacedStages& stages);

}  // namespace pipeplan
