#pragma once

// Drives devices through a program: one engine for every backend. It enqueues each iteration's commands in an
// order in which nothing waits for what is not yet enqueued, and turns the stamps into a timeline that starts
// at 0. Of several copies of the pipeline it shows the one that finished last; where several replicas run a
// rank, an op or a transfer lasts from its earliest start to its latest end among them. The memory is that of
// the worker that held most; makespan and iteration are those of all copies.

#include <memory>
#include <optional>
#include <vector>

#include "executor/device.hpp"
#include "executor/program.hpp"
#include "planner/cost.hpp"
#include "profiler/load_guard.hpp"
#include "simulator/timeline.hpp"

namespace pipeplan {

struct IterationResult {
  Timeline timeline;
  LoadVerdict load;  // over the computing commands
};

// What passes between stage i and i+1, as `costs` have it.
std::vector<Bytes> boundary_bytes(const PipelineCosts& costs);

class Engine {
 public:
  // One device per worker; `bytes` per boundary and micro-batch.
  Engine(Program program, PerId<WorkerId, std::unique_ptr<Device>> devices, const std::vector<Bytes>& bytes);

  Result<IterationResult> run_iteration(std::int64_t number);
  [[nodiscard]] const Program& program() const { return program_; }

 private:
  void draw_blank(const std::vector<Bytes>& bytes);
  void draw_command(RankId rank, const Command& command, const std::vector<Bytes>& bytes);
  void enqueue_all();
  [[nodiscard]] bool ready(const Command& command) const;
  [[nodiscard]] Result<IterationResult> collect() const;
  [[nodiscard]] std::int64_t slowest_copy(const PerId<WorkerId, std::vector<Stamp>>& stamps) const;
  void note_time(const Stamp& stamp, IterationResult& result) const;
  [[nodiscard]] bool computes(const Stamp& stamp) const;
  void show(const Stamp& stamp, Timeline& timeline) const;
  void note_memory(WorkerId worker, Timeline& timeline) const;

  Program program_;
  PerId<WorkerId, std::unique_ptr<Device>> devices_;
  Timeline blank_;  // all spans and transfers of an iteration, not yet timed
  // Per command its span or transfer in the blank timeline: where all workers of a rank note the same op.
  std::vector<std::optional<std::size_t>> places_;
  std::vector<bool> enqueued_;
};

}  // namespace pipeplan
