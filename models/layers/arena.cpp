#include "models/layers/arena.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>

#include "models/base/assert.hpp"
#include "models/layers/layer.hpp"

namespace pipeplan {
namespace {

// What the system could give without swapping (MemAvailable of Linux); absent where it does not say. An
// allocation beyond it succeeds and ends the program once its pages are touched, so it is asked first.
std::optional<Bytes> available_memory() {
  std::ifstream file("/proc/meminfo");
  std::int64_t kib = 0;
  for (std::string word; file >> word;)
    if (word == "MemAvailable:" && file >> kib) return Bytes{kib * 1024};
  return std::nullopt;
}

Failure too_little_memory(Bytes capacity, const std::optional<Bytes>& available, const std::string& where) {
  const std::string there = available ? fmt::format("the system has {} left", display(*available))
                                      : std::string("which the system does not give");
  return fail(ErrorCode::unavailable, where, fmt::format("needs {} of memory, {}", display(capacity), there));
}

}  // namespace

Bytes arena_bytes(Bytes bytes) { return {aligned_count<char>(bytes.value)}; }

Arena::Arena(std::byte* region, Bytes capacity, std::function<void(std::byte*)> release)
    : region_(region, std::move(release)), capacity_(arena_bytes(capacity).value) {}

Result<Arena> Arena::reserve(Bytes capacity, const std::string& where) {
  PIPEPLAN_ASSERT(capacity.value >= 0);
  const auto available = available_memory();
  if (available && capacity > *available) return too_little_memory(capacity, available, where);
  const auto size = static_cast<std::size_t>(std::max(arena_bytes(capacity).value, buffer_alignment));
  auto* region = static_cast<std::byte*>(std::aligned_alloc(buffer_alignment, size));
  if (region == nullptr) return too_little_memory(capacity, std::nullopt, where);
  std::memset(region, 0, size);
  return Arena(region, capacity, [](std::byte* block) { std::free(block); });
}

std::byte* Arena::allocate(Bytes bytes, MemoryItem item) {
  PIPEPLAN_ASSERT(bytes.value >= 0);
  const Bytes rounded = arena_bytes(bytes);
  in_use_[item] += rounded;
  if (in_use_.total() > at_peak_.total()) at_peak_ = in_use_;
  auto& blocks = reusable_[rounded.value];
  if (!blocks.empty()) {
    std::byte* block = blocks.back();
    blocks.pop_back();
    return block;
  }
  PIPEPLAN_ASSERT(rounded.value <= capacity_ - bumped_);
  std::byte* block = region_.get() + bumped_;
  bumped_ += rounded.value;
  return block;
}

void Arena::release(std::byte* block, Bytes bytes, MemoryItem item) {
  const Bytes rounded = arena_bytes(bytes);
  const std::int64_t offset = block - region_.get();
  PIPEPLAN_ASSERT(offset >= 0 && offset <= bumped_ - rounded.value && offset % buffer_alignment == 0);
  PIPEPLAN_ASSERT(in_use_[item] >= rounded);
  auto& blocks = reusable_[rounded.value];
  PIPEPLAN_ASSERT(blocks.empty() || rounded.value == 0 || blocks.back() != block);
  in_use_[item] -= rounded;
  blocks.push_back(block);
}

}  // namespace pipeplan
