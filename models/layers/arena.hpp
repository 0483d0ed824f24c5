#pragma once

// An owner-tagged arena: one reserved region from which a stage takes all its tensors, 64-byte aligned, and
// which knows at any time who holds how many bytes. Blocks of equal size are reused in last-in-first-out
// order, so that a training loop allocates from the operating system never and from the arena in constant
// time. Not thread-safe: each stage has its own, used by its own thread.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "models/base/id.hpp"
#include "models/base/result.hpp"
#include "models/base/spelling.hpp"
#include "models/base/units.hpp"

namespace pipeplan {

enum class MemoryItem {
  weights,
  gradients,
  optimizer_state,
  activations,
  workspace,
  communication,
  reserved
};
inline constexpr std::size_t memory_item_count = 7;

constexpr auto spellings(MemoryItem) {
  using enum MemoryItem;
  return std::to_array<Spelling<MemoryItem>>({{weights, "weights"},
                                              {gradients, "gradients"},
                                              {optimizer_state, "optimizer_state"},
                                              {activations, "activations"},
                                              {workspace, "workspace"},
                                              {communication, "communication"},
                                              {reserved, "reserved"}});
}

// Bytes by item; the sum is what counts against a device's memory.
struct MemoryUse {
  std::array<Bytes, memory_item_count> items{};

  Bytes& operator[](MemoryItem item) { return items[static_cast<std::size_t>(item)]; }
  Bytes operator[](MemoryItem item) const { return items[static_cast<std::size_t>(item)]; }
  [[nodiscard]] Bytes total() const {
    Bytes sum;
    for (const Bytes bytes : items) sum += bytes;
    return sum;
  }
  friend bool operator==(const MemoryUse&, const MemoryUse&) = default;
};

class Arena {
 public:
  // Reserves `capacity` bytes of host memory and touches them, so that no page fault falls into a
  // measurement.
  static Result<Arena> reserve(Bytes capacity, const std::string& where);

  // Over `capacity` bytes of any memory, which the arena never touches itself; `release` frees it.
  Arena(std::byte* region, Bytes capacity, std::function<void(std::byte*)> release);

  // A block of at least `bytes` (rounded up to 64, which is what is accounted). Past the capacity is a bug:
  // callers size the arena from the same numbers.
  std::byte* allocate(Bytes bytes, MemoryItem item);
  void release(std::byte* block, Bytes bytes, MemoryItem item);

  [[nodiscard]] const MemoryUse& in_use() const { return in_use_; }
  [[nodiscard]] const MemoryUse& at_peak() const { return at_peak_; }
  // The peak restarts from what is in use now.
  void reset_peak() { at_peak_ = in_use_; }

 private:
  std::unique_ptr<std::byte, std::function<void(std::byte*)>> region_;
  std::int64_t capacity_ = 0;
  std::int64_t bumped_ = 0;
  std::map<std::int64_t, std::vector<std::byte*>> reusable_;
  MemoryUse in_use_, at_peak_;
};

// `bytes` as the arena accounts them.
Bytes arena_bytes(Bytes bytes);

}  // namespace pipeplan
