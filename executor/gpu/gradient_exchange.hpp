#pragma once

// The all-reduce of one stage's gradients as one of its peers does it: reduce_scatter leaves in this peer's
// share of every layer's gradients the sum over all peers, in their order, so that the result depends neither
// on times nor on who computes it; all_gather fetches the other shares. On one GPU a worker's queue reads its
// peers' memory; between GPUs a courier queue of the peer sends. What comes from peers lands in a buffer
// outside the stage's arena, a share per peer.

#include <span>
#include <vector>

#include "executor/gpu/gpu_rig.hpp"

namespace pipeplan {

class GradientExchange {
 public:
  // The stage's segments must be there on all peers once the exchange runs; `time` is what the links would
  // take for both halves, 0 where they are not emulated.
  static Result<GradientExchange> make(GpuRig& rig, StageId stage, WorkerId self, std::vector<WorkerId> peers,
                                       Nanoseconds time, const std::string& where);

  void reduce_scatter(const Command& command);
  void all_gather(const Command& command);

 private:
  // Part of a layer's gradients.
  struct Share {
    std::int64_t first = 0, count = 0;
  };

  GradientExchange(GpuRig& rig, StageId stage, WorkerId self, std::vector<WorkerId> peers, Nanoseconds time,
                   Arena region);
  [[nodiscard]] Segment& segment_of(WorkerId peer) const;
  [[nodiscard]] Share share_of(std::size_t peer, std::size_t layer) const;
  void alert_couriers(const Command& command);
  void sum_share(std::size_t layer);
  // `count` scalars from a peer's memory, in this worker's order.
  void fetch(WorkerId peer, const float* from, float* to, std::int64_t count);

  GpuRig* rig_;
  StageId stage_;
  WorkerId self_;
  std::vector<WorkerId> peers_;
  std::size_t place_ = 0;  // of self among the peers
  Nanoseconds time_;
  Arena region_;
  std::vector<float*> landings_;  // per layer: room for a share from each peer
};

}  // namespace pipeplan
