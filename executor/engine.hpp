#pragma once

// Drives devices through a program: one engine for every backend. It enqueues each iteration's commands in an
// order in which nothing waits for what is not yet enqueued, and turns the stamps into a timeline that starts
// at 0.

#include <memory>
#include <vector>

#include "executor/device.hpp"
#include "executor/program.hpp"
#include "profiler/load_guard.hpp"
#include "simulator/timeline.hpp"

namespace pipeplan {

struct IterationResult {
  Timeline timeline;
  LoadVerdict load;  // over the computing commands
};

class Engine {
 public:
  // One device per rank; `boundary_bytes[s]` passes between stage s and s+1 per micro-batch.
  Engine(Program program, PerId<RankId, std::unique_ptr<Device>> devices, std::vector<Bytes> boundary_bytes);

  IterationResult run_iteration(std::int64_t number);

 private:
  void enqueue_all();
  [[nodiscard]] bool ready(const Command& command) const;
  void collect(RankId rank, IterationResult& result) const;
  void place(RankId rank, const Stamp& stamp, IterationResult& result) const;

  Program program_;
  PerId<RankId, std::unique_ptr<Device>> devices_;
  std::vector<Bytes> boundary_bytes_;
  std::vector<bool> enqueued_;
};

}  // namespace pipeplan
