#include "executor/placed_stage.hpp"

namespace pipeplan {

Bytes memory_needed(const WorkerSpec& spec) {
  Bytes sum;
  for (const StageSpec& stage : spec.stages) {
    const SegmentSpec& segment = stage.segment;
    sum += segment_memory(segment, stage.peak_in_flight, stage.split_in_flight).total();
    sum += layer_bytes(*segment.layers.front(), segment.batch).input * stage.activation_slots;
    sum += layer_bytes(*segment.layers.back(), segment.batch).output * stage.gradient_slots;
  }
  return sum;
}

void place_stages(const WorkerSpec& spec, Processor& processor, Arena& arena, PlacedStages& stages) {
  for (const StageSpec& stage : spec.stages) {
    const SegmentSpec& segment = stage.segment;
    PlacedStage& here = stages[{spec.id, stage.stage}];
    here.segment = std::make_unique<Segment>(segment, processor, arena);
    here.segment->initialize(static_cast<std::uint64_t>(spec.batch.seed));
    const auto inputs = static_cast<std::size_t>(segment.layers.front()->input_count(segment.batch));
    const auto outputs = static_cast<std::size_t>(segment.layers.back()->output_count(segment.batch));
    here.activations.open(arena, stage.activation_slots, inputs);
    here.gradients.open(arena, stage.gradient_slots, outputs);
  }
}

}  // namespace pipeplan
