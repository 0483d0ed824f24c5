#pragma once

// Queues on the GPU of this machine, for tests that have one.

#include <doctest/doctest.h>

#include <memory>
#include <numeric>
#include <vector>

#include "profiler/gpu/gpu_backend.hpp"

namespace pipeplan::test {

using Queues = std::vector<std::unique_ptr<GpuQueue>>;

inline GpuBackend& backend() {
  const auto loaded = cuda_backend();
  REQUIRE(loaded.has_value());
  return **loaded;
}

inline Queues open_queues(PartitionKind kind, const std::vector<PartRequest>& requests) {
  auto queues = backend().open(kind, requests);
  if (!queues) FAIL(queues.error().where, ": ", queues.error().message);
  return std::move(*queues);
}

inline std::unique_ptr<GpuQueue> open_queue() {
  return std::move(open_queues(PartitionKind::device, {{.name = "test"}}).front());
}

// 1, 2, 3 ... scaled: whole numbers, so that sums are exact.
inline std::vector<float> ramp(std::size_t count, float scale = 1) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 1.0F);
  for (float& value : values) value *= scale;
  return values;
}

// So many scalars of a queue's memory, given back at the end.
class Tensor {
 public:
  Tensor(GpuQueue& queue, std::size_t count) : queue_(queue), count_(count), arena_(reserve(queue, count)) {
    place_ = reinterpret_cast<float*>(arena_.allocate(bytes(count), MemoryItem::weights));
  }
  Tensor(GpuQueue& queue, const std::vector<float>& values) : Tensor(queue, values.size()) {
    queue.upload(values, place_);
  }
  [[nodiscard]] float* place() const { return place_; }
  [[nodiscard]] std::vector<float> values() const {
    std::vector<float> values(count_);
    queue_.download(place_, values);
    return values;
  }

 private:
  static Bytes bytes(std::size_t count) { return {static_cast<std::int64_t>(count * sizeof(float))}; }
  static Arena reserve(GpuQueue& queue, std::size_t count) {
    auto arena = queue.reserve(bytes(count), "test");
    if (!arena) FAIL(arena.error().message);
    return std::move(*arena);
  }
  GpuQueue& queue_;
  std::size_t count_;
  Arena arena_;
  float* place_ = nullptr;
};

inline void finish(GpuQueue& queue) {
  const auto done = queue.synchronize();
  if (!done) FAIL(done.error().where, ": ", done.error().message);
}

}  // namespace pipeplan::test
