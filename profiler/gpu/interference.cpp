#include "profiler/gpu/interference.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "profiler/gpu/gpu_round.hpp"
#include "profiler/statistics.hpp"

namespace pipeplan {
namespace {

constexpr int warm_up_count = 2, round_count = 9;
constexpr Bytes hog_bytes{32 << 20};  // copied at a time: more than a part's share of any cache
// Above a thousand or so in a queue, a GPU makes the host wait, and the round would begin when most copies
// are over. More than these become longer ones instead.
constexpr std::int64_t most_copies = 800, most_times_longer = 16;

// Copies memory on its queue, as often as it is told.
class Hog {
 public:
  // Copies `times_longer` times as much at a time as need be.
  static Result<Hog> make(GpuQueue& queue, std::int64_t times_longer = 1) {
    const Bytes bytes = hog_bytes * times_longer;
    PIPEPLAN_TRY(arena, queue.reserve(bytes * 2, "link probe"));
    PIPEPLAN_TRY(from, queue.make_event(EventUse::timing));
    PIPEPLAN_TRY(to, queue.make_event(EventUse::timing));
    return Hog(queue, bytes, std::move(arena), std::move(from), std::move(to));
  }

  void copy(std::int64_t times) {
    queue_->record(*from_);
    for (std::int64_t i = 0; i < times; ++i) queue_->copy(source_, target_, count_);
    queue_->record(*to_);
  }
  Result<Nanoseconds> finish() {
    PIPEPLAN_CHECK(queue_->synchronize());
    return queue_->elapsed(*from_, *to_);
  }
  Result<void> lengthen(std::int64_t times) {
    PIPEPLAN_TRY(longer, make(*queue_, times));
    *this = std::move(longer);
    return {};
  }

 private:
  Hog(GpuQueue& queue, Bytes bytes, Arena arena, std::unique_ptr<GpuEvent> from, std::unique_ptr<GpuEvent> to)
      : queue_(&queue),
        count_(bytes.value / static_cast<std::int64_t>(sizeof(float))),
        arena_(std::move(arena)),
        source_(take(bytes)),
        target_(take(bytes)),
        from_(std::move(from)),
        to_(std::move(to)) {}
  float* take(Bytes bytes) { return reinterpret_cast<float*>(arena_.allocate(bytes, MemoryItem::workspace)); }

  GpuQueue* queue_;
  std::int64_t count_;
  Arena arena_;
  float *source_, *target_;
  std::unique_ptr<GpuEvent> from_, to_;
};

// Forward and backward of each layer, round by round.
using LayerTimes = std::vector<std::vector<Nanoseconds>>;

class InterferenceProbe {
 public:
  InterferenceProbe(GpuRounds& rounds, std::vector<Hog> hogs, std::size_t layer_count)
      : rounds_(rounds), hogs_(std::move(hogs)), layer_count_(layer_count) {}

  // Alone and disturbed rounds alternate, so that a drift of the clocks hits both.
  Result<void> run() {
    PIPEPLAN_TRY(copies, copies_per_round());
    alone_.resize(layer_count_);
    disturbed_.resize(layer_count_);
    for (int i = 0; i < round_count; ++i) {
      PIPEPLAN_CHECK(round(alone_, 0));
      PIPEPLAN_CHECK(round(disturbed_, copies));
    }
    return {};
  }

  // Of layer i, as disturbed / alone.
  [[nodiscard]] double factor(std::size_t layer) const {
    return ratio(median(disturbed_[layer]), median(alone_[layer]));
  }
  [[nodiscard]] double whole_factor() const { return ratio(sum(disturbed_), sum(alone_)); }

 private:
  // Enough to outlast a round: time of some copies against time of a round, with half as many to spare.
  Result<std::int64_t> copies_per_round() {
    Nanoseconds whole{};
    for (int i = 0; i < warm_up_count; ++i) {
      PIPEPLAN_CHECK(rounds_.prepare());
      PIPEPLAN_TRY(time, rounds_.run_timed());
      whole = time + rounds_.head_start();
    }
    constexpr std::int64_t tried = 16;
    hogs_.front().copy(tried);
    PIPEPLAN_TRY(copying, hogs_.front().finish());
    const auto each = std::max<std::int64_t>(1, copying.count() / tried);
    const std::int64_t wanted = whole.count() * 3 / 2 / each + 2;
    if (wanted <= most_copies) return wanted;
    const std::int64_t times = std::min((wanted + most_copies - 1) / most_copies, most_times_longer);
    for (Hog& hog : hogs_) PIPEPLAN_CHECK(hog.lengthen(times));
    return std::min((wanted + times - 1) / times, most_copies);
  }

  Result<void> round(LayerTimes& into, std::int64_t copies) {
    PIPEPLAN_CHECK(rounds_.prepare());
    if (copies > 0)
      for (Hog& hog : hogs_) hog.copy(copies);
    PIPEPLAN_CHECK(rounds_.run_timed());
    if (copies > 0)
      for (Hog& hog : hogs_) PIPEPLAN_CHECK(hog.finish());
    PIPEPLAN_TRY(times, rounds_.pass_times());
    for (std::size_t i = 0; i < times.size(); ++i) into[i].push_back(times[i].whole());
    return {};
  }

  static Nanoseconds sum(const LayerTimes& times) {
    Nanoseconds sum{};
    for (const auto& samples : times) sum += median(samples);
    return sum;
  }
  static double ratio(Nanoseconds a, Nanoseconds b) {
    return b > Nanoseconds::zero() ? static_cast<double>(a.count()) / static_cast<double>(b.count()) : 1;
  }

  GpuRounds& rounds_;
  std::vector<Hog> hogs_;
  std::size_t layer_count_;
  LayerTimes alone_, disturbed_;
};

}  // namespace

Result<Interference> probe_interference(const ModelGraph& model, std::int64_t micro_batch_size,
                                        std::span<const std::unique_ptr<GpuQueue>> queues) {
  PIPEPLAN_ASSERT(queues.size() >= 2);
  PIPEPLAN_TRY(layers, runnable_layers(model, *queues.front()));
  PIPEPLAN_TRY(rounds, GpuRounds::make(model, layers, micro_batch_size, *queues.front()));
  std::vector<Hog> hogs;
  for (const auto& queue : queues.subspan(1)) {
    PIPEPLAN_TRY(hog, Hog::make(*queue));
    hogs.push_back(std::move(hog));
  }
  InterferenceProbe probe(*rounds, std::move(hogs), layers.size());
  PIPEPLAN_CHECK(probe.run());
  Interference found{.micro_batch_size = micro_batch_size, .factor = probe.whole_factor(), .worst_layer = {}};
  for (const LayerId id : ids<LayerId>(layers.size())) {
    const double factor = probe.factor(id.index());
    if (!found.worst_layer.empty() && factor <= found.worst_factor) continue;
    found.worst_layer = model.layers()[id].name;
    found.worst_factor = factor;
  }
  return found;
}

}  // namespace pipeplan
