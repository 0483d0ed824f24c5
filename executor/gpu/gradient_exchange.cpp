#include "executor/gpu/gradient_exchange.hpp"

#include <algorithm>

namespace pipeplan {
namespace {

// Shares start aligned; the last may be shorter, and in a small layer empty.
std::int64_t share_count(std::size_t scalars, std::size_t peers) {
  return aligned_count<float>(static_cast<std::int64_t>((scalars + peers - 1) / peers));
}

Bytes landing_bytes(std::size_t scalars, std::size_t peers) {
  const std::int64_t count = share_count(scalars, peers) * static_cast<std::int64_t>(peers);
  return Bytes{count * static_cast<std::int64_t>(sizeof(float))};
}

}  // namespace

Result<GradientExchange> GradientExchange::make(GpuRig& rig, StageId stage, WorkerId self,
                                                std::vector<WorkerId> peers, Nanoseconds time,
                                                const std::string& where) {
  Segment& segment = *rig.stages.at({self, stage}).segment;
  Bytes bytes{buffer_alignment};
  for (std::size_t layer = 0; layer < segment.layer_count(); ++layer)
    bytes += landing_bytes(segment.gradients(layer).size(), peers.size());
  PIPEPLAN_TRY(region, rig.queues[self]->reserve(bytes, where + ", all-reduce"));
  return GradientExchange(rig, stage, self, std::move(peers), time, std::move(region));
}

GradientExchange::GradientExchange(GpuRig& rig, StageId stage, WorkerId self, std::vector<WorkerId> peers,
                                   Nanoseconds time, Arena region)
    : rig_(&rig),
      stage_(stage),
      self_(self),
      peers_(std::move(peers)),
      place_(static_cast<std::size_t>(std::ranges::find(peers_, self) - peers_.begin())),
      time_(time),
      region_(std::move(region)) {
  Segment& segment = segment_of(self_);
  for (std::size_t layer = 0; layer < segment.layer_count(); ++layer) {
    const Bytes bytes = landing_bytes(segment.gradients(layer).size(), peers_.size());
    landings_.push_back(reinterpret_cast<float*>(region_.allocate(bytes, MemoryItem::communication)));
  }
}

Segment& GradientExchange::segment_of(WorkerId peer) const {
  return *rig_->stages.at({peer, stage_}).segment;
}

GradientExchange::Share GradientExchange::share_of(std::size_t peer, std::size_t layer) const {
  const auto size = static_cast<std::int64_t>(segment_of(self_).gradients(layer).size());
  const std::int64_t each = share_count(static_cast<std::size_t>(size), peers_.size());
  const std::int64_t first = std::min(size, each * static_cast<std::int64_t>(peer));
  return {.first = first, .count = std::min(each, size - first)};
}

// What this command waits for has made the peers' numbers ready, and has read what they overwrite here.
void GradientExchange::alert_couriers(const Command& command) {
  for (const WorkerId peer : peers_)
    if (GpuQueue* courier = rig_->couriers[peer].get(); courier != nullptr && peer != self_)
      for (const CommandId id : command.waits) courier->wait(rig_->events.done(id));
}

void GradientExchange::reduce_scatter(const Command& command) {
  alert_couriers(command);
  for (std::size_t layer = 0; layer < landings_.size(); ++layer) sum_share(layer);
  rig_->queues[self_]->idle(time_ - time_ / 2);
}

void GradientExchange::sum_share(std::size_t layer) {
  const Share share = share_of(place_, layer);
  if (share.count == 0) return;
  GpuQueue& queue = *rig_->queues[self_];
  float* own = segment_of(self_).gradients(layer).data() + share.first;
  const auto term = [&](std::size_t peer) {
    return peer == place_ ? own : landings_[layer] + static_cast<std::int64_t>(peer) * share.count;
  };
  for (std::size_t peer = 0; peer < peers_.size(); ++peer)
    if (peer != place_)
      fetch(peers_[peer], segment_of(peers_[peer]).gradients(layer).data() + share.first, term(peer),
            share.count);
  float* sum = term(0);
  for (std::size_t peer = 1; peer < peers_.size(); ++peer) queue.add(term(peer), sum, share.count);
  if (sum != own) queue.copy(sum, own, share.count);
}

void GradientExchange::all_gather(const Command& command) {
  alert_couriers(command);
  for (std::size_t layer = 0; layer < landings_.size(); ++layer)
    for (std::size_t peer = 0; peer < peers_.size(); ++peer) {
      const Share share = share_of(peer, layer);
      if (peer == place_ || share.count == 0) continue;
      fetch(peers_[peer], segment_of(peers_[peer]).gradients(layer).data() + share.first,
            segment_of(self_).gradients(layer).data() + share.first, share.count);
    }
  rig_->queues[self_]->idle(time_ / 2);
}

void GradientExchange::fetch(WorkerId peer, const float* from, float* to, std::int64_t count) {
  GpuQueue& mine = *rig_->queues[self_];
  GpuQueue* courier = rig_->couriers[peer].get();
  if (courier == nullptr) return mine.copy(from, to, count);
  courier->send(from, mine, to, count);
  courier->record(*rig_->handovers[peer]);
  mine.wait(*rig_->handovers[peer]);
}

}  // namespace pipeplan
