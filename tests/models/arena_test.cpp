#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <functional>
#include <set>

#include "models/layers/arena.hpp"
#include "tests/support/random.hpp"

// Sanitizers end a program that asks for too much memory; here that is to be refused.
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }
extern "C" const char* __tsan_default_options() { return "allocator_may_return_null=1"; }

namespace pipeplan::test {
namespace {

Arena arena_of(std::int64_t bytes) {
  auto arena = Arena::reserve(Bytes{bytes}, "test");
  REQUIRE(arena);
  return std::move(*arena);
}

// True if `misuse` ends its process by an abort; it runs in a child, whose words go nowhere.
bool aborts(const std::function<void()>& misuse) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);
    close(STDERR_FILENO);
    misuse();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

}  // namespace

TEST_CASE("arena: blocks are 64-byte aligned, apart, and accounted in steps of 64 bytes") {
  Arena arena = arena_of(10 * 64);
  std::byte* one = arena.allocate(Bytes{1}, MemoryItem::weights);
  std::byte* two = arena.allocate(Bytes{65}, MemoryItem::gradients);
  CHECK(reinterpret_cast<std::uintptr_t>(one) % 64 == 0);
  CHECK(two == one + 64);
  CHECK(arena.in_use()[MemoryItem::weights] == Bytes{64});
  CHECK(arena.in_use()[MemoryItem::gradients] == Bytes{2 * 64});
  CHECK(arena.in_use().total() == Bytes{64 + 2 * 64});
  CHECK(arena_bytes(Bytes{0}) == Bytes{0});
  CHECK(arena_bytes(Bytes{64}) == Bytes{64});
}

TEST_CASE("arena: a released block is the next one given for its size, the last released first") {
  Arena arena = arena_of(3 * 128 + 64);
  std::byte* a = arena.allocate(Bytes{128}, MemoryItem::activations);
  std::byte* b = arena.allocate(Bytes{128}, MemoryItem::activations);
  arena.release(a, Bytes{128}, MemoryItem::activations);
  arena.release(b, Bytes{128}, MemoryItem::activations);
  std::byte* other_size = arena.allocate(Bytes{64}, MemoryItem::activations);
  CHECK(other_size != a);
  CHECK(other_size != b);
  CHECK(arena.allocate(Bytes{120}, MemoryItem::communication) == b);
  CHECK(arena.allocate(Bytes{128}, MemoryItem::activations) == a);
}

TEST_CASE("arena: the peak is the use item by item at the moment of the largest sum") {
  Arena arena = arena_of(100 * 64);
  std::byte* activation = arena.allocate(Bytes{10 * 64}, MemoryItem::activations);
  arena.allocate(Bytes{3 * 64}, MemoryItem::weights);
  arena.release(activation, Bytes{10 * 64}, MemoryItem::activations);
  arena.allocate(Bytes{2 * 64}, MemoryItem::workspace);
  CHECK(arena.at_peak()[MemoryItem::activations] == Bytes{10 * 64});
  CHECK(arena.at_peak()[MemoryItem::weights] == Bytes{3 * 64});
  CHECK(arena.at_peak()[MemoryItem::workspace] == Bytes{0});
  CHECK(arena.in_use().total() == Bytes{(3 + 2) * 64});

  arena.reset_peak();
  CHECK(arena.at_peak() == arena.in_use());
  arena.allocate(Bytes{64}, MemoryItem::reserved);
  CHECK(arena.at_peak().total() == Bytes{(3 + 2 + 1) * 64});
}

TEST_CASE("arena: a loop that gives back what it takes needs the memory of one turn") {
  INFO("seed 14");
  Random random(14);
  std::vector<std::int64_t> sizes;
  std::int64_t capacity = 0;
  for (int i = 0; i < 20; ++i) {
    sizes.push_back(random.between(1, 5) * 64);
    capacity += sizes.back();
  }
  Arena arena = arena_of(capacity);
  for (int turn = 0; turn < 100; ++turn) {
    std::vector<std::byte*> blocks;
    for (const std::int64_t size : sizes)
      blocks.push_back(arena.allocate(Bytes{size}, MemoryItem::activations));
    CHECK(std::set(blocks.begin(), blocks.end()).size() == sizes.size());
    CHECK(arena.in_use().total() == Bytes{capacity});
    for (std::size_t i = 0; i < sizes.size(); ++i)
      arena.release(blocks[i], Bytes{sizes[i]}, MemoryItem::activations);
  }
  CHECK(arena.in_use() == MemoryUse{});
}

TEST_CASE("arena: memory the system does not have is an error that says how much and for whom") {
  const auto arena = Arena::reserve(Bytes{std::int64_t{1} << 60}, "stage 2");
  REQUIRE(!arena);
  CHECK(arena.error().code == ErrorCode::unavailable);
  CHECK(arena.error().where == "stage 2");
  CHECK(arena.error().message.starts_with("needs "));
}

TEST_CASE(
    "arena: taking beyond the capacity, a foreign block, the wrong item and giving back twice are bugs") {
  Arena arena = arena_of(2 * 64);
  std::byte* block = arena.allocate(Bytes{64}, MemoryItem::weights);
  arena.allocate(Bytes{64}, MemoryItem::weights);
  std::byte stranger{};
  CHECK(aborts([&] { arena.allocate(Bytes{1}, MemoryItem::weights); }));
  CHECK(aborts([&] { arena.release(&stranger, Bytes{1}, MemoryItem::weights); }));
  CHECK(aborts([&] { arena.release(block + 1, Bytes{64}, MemoryItem::weights); }));
  CHECK(aborts([&] { arena.release(block, Bytes{64}, MemoryItem::gradients); }));
  CHECK(aborts([&] {
    arena.release(block, Bytes{64}, MemoryItem::weights);
    arena.release(block, Bytes{64}, MemoryItem::weights);
  }));
  CHECK(!aborts([&] { arena.release(block, Bytes{64}, MemoryItem::weights); }));
}

}  // namespace pipeplan::test
