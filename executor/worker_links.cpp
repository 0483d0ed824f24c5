#include "executor/worker_links.hpp"

#include "executor/command_time.hpp"

namespace pipeplan {

WorkerLinks::WorkerLinks(WorkerId worker, const PipelineCosts& costs) : worker_(worker), costs_(costs) {
  restart();
}

void WorkerLinks::restart() {
  forward_free_.assign(costs_.boundaries.size(), Nanoseconds::zero());
  backward_free_ = forward_free_;
  last_.reset();
}

Passage WorkerLinks::pass(const Command& send, Nanoseconds ready) {
  if (send.target == worker_) return {ready, ready};
  if (last_ != send.op) {
    const std::size_t boundary = crossed_boundary(send.op);
    auto& free = sends_gradient(send.op.kind) ? backward_free_ : forward_free_;
    passage_ = pass_link(costs_.transfers, costs_.boundaries.at(boundary), ready, free[boundary]);
    last_ = send.op;
  }
  return passage_;
}

}  // namespace pipeplan
