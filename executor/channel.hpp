#pragma once

// A bounded queue of tensors between two neighbouring stages, in one direction: a ring of buffers in the
// receiver's memory. It has as many as the sender can be ahead by the order of ops, so a send never waits for
// room; events order every write before its read and every read before the next write of that buffer.

#include <cstdint>
#include <span>
#include <vector>

#include "models/layers/arena.hpp"

namespace pipeplan {

class Channel {
 public:
  // `slots` buffers of `count` scalars from the receiver's arena.
  void open(Arena& arena, std::int64_t slots, std::size_t count) {
    const Bytes bytes{static_cast<std::int64_t>(count * sizeof(float))};
    for (std::int64_t i = 0; i < slots; ++i)
      slots_.push_back(reinterpret_cast<float*>(arena.allocate(bytes, MemoryItem::communication)));
    count_ = count;
  }

  // The buffer of the tensor with this number among those that pass here in one iteration.
  [[nodiscard]] std::span<float> slot(std::int64_t sequence) const {
    return {slots_[static_cast<std::size_t>(sequence) % slots_.size()], count_};
  }

 private:
  std::vector<float*> slots_;
  std::size_t count_ = 0;
};

}  // namespace pipeplan
