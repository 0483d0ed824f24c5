#include "profiler/gpu/reduce.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "tests/support/random.hpp"

namespace pipeplan {
namespace {

using enum LayerPass;

std::uint64_t tag(std::int64_t iteration, std::int64_t layer, LayerPass pass, std::int64_t micro_batch = 0) {
  return pack({iteration, {layer, pass, micro_batch}});
}

GpuWork kernel(std::uint32_t id, std::int64_t start, std::int64_t end, const std::string& name = "k") {
  return {.kind = GpuWorkKind::kernel, .name = name, .start = start, .end = end, .correlation = id};
}

// Iterations 0, 1, 2 at 100 to 200, 300 to 400, 500 to 600.
GpuTrace three_iterations() {
  GpuTrace trace;
  for (std::int64_t i = 0; i < 3; ++i) trace.iterations.push_back({i, 100 + 200 * i, 200 + 200 * i});
  return trace;
}

GpuCell cell(const ReducedTrace& reduced, std::int64_t iteration, std::int64_t layer, LayerPass pass) {
  const auto found = reduced.cells.find({iteration, layer, pass});
  REQUIRE(found != reduced.cells.end());
  return found->second;
}

Nanoseconds ns(std::int64_t count) { return Nanoseconds{count}; }

// What reduce() promises, said again the slow way: one look at every record for every cell, one look at every
// nanosecond for every sum.
class SlowReduction {
 public:
  explicit SlowReduction(const GpuTrace& trace) : trace_(trace) {}

  ReducedTrace run() {
    for (const GpuIteration& iteration : trace_.iterations) {
      const bool worked_over = overhead_in(iteration), disturbed = dirty(iteration);
      if (worked_over || disturbed) reduced_.dirty_iterations.push_back(iteration.number);
      if (worked_over && !disturbed) reduced_.overhead_iterations.push_back(iteration.number);
      for (std::int64_t layer = 0; layer < 3; ++layer)
        for (const LayerPass pass : {forward, backward_input, backward_weight, optimizer, transfer, other})
          add_cell(iteration, layer, pass);
    }
    std::set<std::string> names;
    for (const GpuWork& work : trace_.work) names.insert(shown_name(work));
    for (const std::string& name : names) add_unattributed(name);
    for (const GpuWork& work : trace_.work) {
      reduced_.untimed_records += bad_time(work) ? 1 : 0;
      reduced_.outside_records += outside(work) ? 1 : 0;
    }
    reduced_.unreleased_allocations = unreleased();
    reduced_.dropped_records = trace_.dropped_records;
    return reduced_;
  }

 private:
  static constexpr std::int64_t horizon = 700;

  static bool bad_time(const GpuWork& work) {
    return work.end < work.start || (work.start == 0 && work.end == 0);
  }
  static std::string shown_name(const GpuWork& work) {
    if (!work.name.empty()) return work.name;
    return work.kind == GpuWorkKind::kernel      ? "kernel"
           : work.kind == GpuWorkKind::copy      ? "copy"
           : work.kind == GpuWorkKind::peer_copy ? "peer_copy"
                                                 : "set";
  }

  // Of the launches of an id that are not after `at`, the one that no other beats.
  [[nodiscard]] std::optional<std::uint64_t> owner(std::uint32_t id, std::int64_t at) const {
    const GpuLaunch* best = nullptr;
    for (const GpuLaunch& launch : trace_.launches) {
      if (launch.correlation != id || launch.at > at) continue;
      if (best == nullptr || launch.at > best->at || (launch.at == best->at && launch.tag > best->tag))
        best = &launch;
    }
    return best == nullptr ? std::nullopt : std::optional(best->tag);
  }

  // Iterations touch at most at their ends, where the later one takes what starts.
  [[nodiscard]] std::optional<std::int64_t> iteration_of(std::int64_t start, std::int64_t end) const {
    std::optional<std::int64_t> number;
    for (const GpuIteration& iteration : trace_.iterations)
      if (start >= iteration.start)
        number = end <= iteration.end ? std::optional(iteration.number) : std::nullopt;
    return number;
  }

  [[nodiscard]] bool outside(const GpuWork& work) const {
    if (bad_time(work)) return false;
    const auto iteration = iteration_of(work.start, work.end);
    const auto launched = owner(work.correlation, work.start);
    return !iteration || (launched && unpack(*launched).iteration != *iteration % 256);
  }

  static bool touches(std::int64_t start, std::int64_t end, const GpuIteration& iteration) {
    return std::max(start, iteration.start) < std::min(end, iteration.end) ||
           (start == end && iteration.start < start && start < iteration.end);
  }

  [[nodiscard]] bool overhead_in(const GpuIteration& iteration) const {
    return std::ranges::any_of(trace_.overheads, [&](const GpuOverhead& overhead) {
      return touches(overhead.start, overhead.end, iteration);
    });
  }

  // By its work.
  [[nodiscard]] bool dirty(const GpuIteration& iteration) const {
    for (const GpuWork& work : trace_.work) {
      if (outside(work) && touches(work.start, work.end, iteration)) return true;
      for (const GpuLaunch& launch : trace_.launches)
        if (bad_time(work) && launch.correlation == work.correlation &&
            unpack(launch.tag).iteration == iteration.number % 256)
          return true;
    }
    return false;
  }

  void add_cell(const GpuIteration& iteration, std::int64_t layer, LayerPass pass) {
    const auto mine = [&](std::uint32_t id, std::int64_t start, std::int64_t end) {
      const auto launched = owner(id, start);
      if (!launched || iteration_of(start, end) != iteration.number) return false;
      const LaunchTag found = unpack(*launched);
      return found.iteration == iteration.number % 256 && found.label.layer == layer &&
             found.label.pass == pass;
    };
    GpuCell cell;
    std::set<std::int64_t> covered, micro_batches;
    std::int64_t first = horizon, last = 0;
    for (const GpuWork& work : trace_.work) {
      if (bad_time(work) || !mine(work.correlation, work.start, work.end)) continue;
      ++cell.launches;
      cell.sum += ns(work.end - work.start);
      for (std::int64_t t = work.start; t < work.end; ++t) covered.insert(t);
      first = std::min(first, work.start);
      last = std::max(last, work.end);
      if (work.kind == GpuWorkKind::copy || work.kind == GpuWorkKind::peer_copy)
        cell.copied += Bytes{work.bytes};
      micro_batches.insert(unpack(*owner(work.correlation, work.start)).label.micro_batch);
    }
    bool any_event = false;
    for (std::int64_t t = 0; t <= horizon; ++t) {
      Bytes before = cell.live_change;
      for (const GpuMemoryEvent& event : trace_.memory) {
        if (event.at != t || !mine(event.correlation, event.at, event.at)) continue;
        any_event = true;
        if (event.allocation) before += Bytes{event.bytes};
        cell.live_change += Bytes{event.allocation ? event.bytes : -event.bytes};
      }
      cell.peak_change = std::max(cell.peak_change, before);
    }
    if (cell.launches == 0 && !any_event) return;
    cell.busy = ns(static_cast<std::int64_t>(covered.size()));
    cell.span = cell.launches == 0 ? ns(0) : ns(last - first);
    cell.micro_batches = static_cast<std::int64_t>(micro_batches.size());
    reduced_.cells[{iteration.number, layer, pass}] = cell;
  }

  void add_unattributed(const std::string& name) {
    UnattributedKernel kernel{.name = name};
    for (const GpuWork& work : trace_.work) {
      if (shown_name(work) != name || bad_time(work) || outside(work)) continue;
      if (owner(work.correlation, work.start)) continue;
      ++kernel.launches;
      kernel.sum += ns(work.end - work.start);
    }
    if (kernel.launches > 0) reduced_.unattributed.push_back(kernel);
  }

  // Every allocation but those that a release follows next at their address.
  [[nodiscard]] std::int64_t unreleased() const {
    struct Here {
      std::int64_t taken = 0, given = 0;
    };
    std::map<std::uint64_t, std::map<std::int64_t, Here>> addresses;
    for (const GpuMemoryEvent& event : trace_.memory) {
      Here& here = addresses[event.address][event.at];
      ++(event.allocation ? here.taken : here.given);
    }
    std::int64_t count = 0;
    for (const auto& [address, times] : addresses) {
      std::int64_t waiting = 0;  // 1: an allocation that the next event may release
      for (const auto& [at, here] : times) {
        if (here.taken > 0) {
          count += waiting + here.taken - 1;
          waiting = 1;
        }
        if (here.given > 0) waiting = 0;
      }
      count += waiting;
    }
    return count;
  }

  const GpuTrace& trace_;
  ReducedTrace reduced_;
};

std::uint64_t random_tag(test::Random& random) {
  return tag(random.between(0, 2), random.between(0, 2), static_cast<LayerPass>(random.between(0, 5)),
             random.between(0, 2));
}

// On a grid, so that times meet.
std::int64_t random_time(test::Random& random) { return 10 * random.between(8, 62); }

// Few ids, layers and times, so that all that can go wrong does.
GpuTrace random_trace(test::Random& random) {
  GpuTrace trace = three_iterations();
  if (random.coin()) trace.iterations[1].start = 200;
  const auto id = [&] { return static_cast<std::uint32_t>(4294967294 + random.between(0, 5)); };
  for (std::int64_t i = random.between(0, 12); i > 0; --i)
    trace.launches.push_back({id(), random_tag(random), random_time(random)});
  for (std::int64_t i = random.between(0, 12); i > 0; --i) {
    GpuWork work = kernel(id(), random_time(random), 0, random.coin() ? "gemm" : "");
    work.kind = static_cast<GpuWorkKind>(random.between(0, 3));
    work.end = work.start + random.between(-1, 40);
    if (random.between(0, 19) == 0) work.start = work.end = 0;
    work.bytes = random.between(0, 100);
    trace.work.push_back(work);
  }
  for (std::int64_t i = random.between(0, 8); i > 0; --i)
    trace.memory.push_back({random.coin(), static_cast<std::uint64_t>(random.between(1, 2)),
                            random.between(1, 9), random_time(random), id(), 0});
  if (random.between(0, 3) == 0) {
    const std::int64_t start = random_time(random);
    trace.overheads.push_back({"flush", start, start + random.between(0, 40)});
  }
  return trace;
}

template<class T>
void shuffle(std::vector<T>& items, test::Random& random) {
  for (std::size_t i = items.size(); i > 1; --i)
    std::swap(items[i - 1],
              items[static_cast<std::size_t>(random.between(0, static_cast<std::int64_t>(i) - 1))]);
}

}  // namespace

TEST_CASE("reduce: a random trace gives what a look at every nanosecond gives") {
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    INFO("seed " << seed);
    test::Random random(seed);
    const GpuTrace trace = random_trace(random);
    CHECK(reduce(trace) == SlowReduction(trace).run());
  }
}

TEST_CASE("reduce: shuffling the records changes nothing") {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    INFO("seed " << seed);
    test::Random random(seed);
    const GpuTrace trace = random_trace(random);
    GpuTrace shuffled = trace;
    shuffle(shuffled.work, random);
    shuffle(shuffled.launches, random);
    shuffle(shuffled.memory, random);
    shuffle(shuffled.overheads, random);
    CHECK(reduce(shuffled) == reduce(trace));
  }
}

TEST_CASE("reduce: every record of work is in one place") {
  std::int64_t in_cells = 0, elsewhere = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    INFO("seed " << seed);
    test::Random random(seed);
    const GpuTrace trace = random_trace(random);
    const ReducedTrace reduced = reduce(trace);
    std::int64_t cells = 0, rest = reduced.untimed_records + reduced.outside_records;
    for (const auto& [key, cell] : reduced.cells) cells += cell.launches;
    for (const UnattributedKernel& found : reduced.unattributed) rest += found.launches;
    CHECK(cells + rest == static_cast<std::int64_t>(trace.work.size()));
    in_cells += cells;
    elsewhere += rest;
  }
  CHECK(in_cells > 100);
  CHECK(elsewhere > 100);
}

TEST_CASE("reduce: a record belongs to the last launch of its id made before it started") {
  GpuTrace trace = three_iterations();
  // The id is used again, and the records come before the launches they belong to.
  trace.work = {kernel(7, 320, 325), kernel(7, 110, 120)};
  trace.launches = {{7, tag(1, 5, forward), 310}, {7, tag(0, 4, forward), 105}};
  const ReducedTrace reduced = reduce(trace);
  CHECK(reduced.cells.size() == 2);
  CHECK(cell(reduced, 0, 4, forward).busy == ns(120 - 110));
  CHECK(cell(reduced, 1, 5, forward).busy == ns(325 - 320));
}

TEST_CASE("reduce: ids that wrap round keep their layers") {
  GpuTrace trace = three_iterations();
  for (std::uint32_t i = 0; i < 4; ++i) {
    const std::uint32_t id = 4294967294U + i;  // 4294967294, 4294967295, 0, 1
    trace.launches.push_back({id, tag(0, i, forward), 110 + 10 * i});
    trace.work.push_back(kernel(id, 112 + 10 * i, 113 + 10 * i + i));
  }
  trace.launches.push_back({1, tag(0, 9, forward), 50});  // of the round before
  const ReducedTrace reduced = reduce(trace);
  CHECK(reduced.cells.size() == 4);
  for (std::int64_t i = 0; i < 4; ++i) CHECK(cell(reduced, 0, i, forward).busy == ns(1 + i));
}

TEST_CASE("reduce: of two launches of one id at one time the larger tag holds") {
  GpuTrace trace = three_iterations();
  trace.work = {kernel(7, 110, 120)};
  trace.launches = {{7, tag(0, 4, forward), 105}, {7, tag(0, 3, other), 105}};
  const ReducedTrace reduced = reduce(trace);
  CHECK(reduced.cells.size() == 1);
  CHECK(cell(reduced, 0, 4, forward).launches == 1);
}

TEST_CASE("reduce: what overlaps on two streams is busy once") {
  GpuTrace trace = three_iterations();
  trace.work = {kernel(1, 110, 130), kernel(1, 120, 140), kernel(1, 125, 128), kernel(1, 160, 165)};
  trace.launches = {{1, tag(0, 0, forward), 105}};
  const GpuCell found = cell(reduce(trace), 0, 0, forward);
  CHECK(found.sum == ns(20 + 20 + 3 + 5));
  CHECK(found.busy == ns((140 - 110) + (165 - 160)));
  CHECK(found.span == ns(165 - 110));
  CHECK(found.launches == 4);
}

TEST_CASE("reduce: micro-batches of a layer and pass make one cell that counts them") {
  GpuTrace trace = three_iterations();
  trace.work = {kernel(1, 110, 120), kernel(2, 130, 150), kernel(3, 160, 161)};
  trace.launches = {
      {1, tag(0, 0, forward, 0), 100}, {2, tag(0, 0, forward, 1), 100}, {3, tag(0, 0, forward, 1), 100}};
  const GpuCell found = cell(reduce(trace), 0, 0, forward);
  CHECK(found.launches == 3);
  CHECK(found.micro_batches == 2);
}

TEST_CASE("reduce: records without stamps or that end before they start make their iteration dirty") {
  for (const auto& [start, end] : {std::pair{0, 0}, std::pair{320, 319}}) {
    GpuTrace trace = three_iterations();
    trace.work = {kernel(1, 110, 120), kernel(2, start, end)};
    trace.launches = {{1, tag(0, 0, forward), 105}, {2, tag(1, 0, forward), 305}};
    const ReducedTrace reduced = reduce(trace);
    CHECK(reduced.untimed_records == 1);
    CHECK(reduced.dirty_iterations == std::vector<std::int64_t>{1});
    CHECK(reduced.cells.size() == 1);
  }
}

TEST_CASE("reduce: work over the end of an iteration is outside and makes all it touches dirty") {
  GpuTrace trace = three_iterations();
  trace.launches = {{1, tag(0, 0, forward), 105}};
  trace.work = {kernel(1, 190, 310)};
  const ReducedTrace across = reduce(trace);
  CHECK(across.outside_records == 1);
  CHECK(across.cells.empty());
  CHECK(across.dirty_iterations == std::vector<std::int64_t>{0, 1});
  trace.work = {kernel(1, 190, 200)};  // ends with it
  CHECK(reduce(trace).outside_records == 0);
  CHECK(reduce(trace).dirty_iterations.empty());
  trace.work = {kernel(1, 210, 290)};  // between two
  CHECK(reduce(trace).outside_records == 1);
  CHECK(reduce(trace).dirty_iterations.empty());
}

TEST_CASE("reduce: work that another iteration launched is outside and makes the one it runs in dirty") {
  GpuTrace trace = three_iterations();
  trace.launches = {{1, tag(0, 0, forward), 195}};
  trace.work = {kernel(1, 310, 320)};
  const ReducedTrace reduced = reduce(trace);
  CHECK(reduced.outside_records == 1);
  CHECK(reduced.cells.empty());
  CHECK(reduced.dirty_iterations == std::vector<std::int64_t>{1});
}

TEST_CASE("reduce: iterations beyond 255 find their tags") {
  GpuTrace trace;
  trace.iterations = {{255, 100, 200}, {256, 300, 400}};
  trace.launches = {{1, tag(255, 0, forward), 105}, {2, tag(256, 0, forward), 305}};
  trace.work = {kernel(1, 110, 120), kernel(2, 310, 330)};
  const ReducedTrace reduced = reduce(trace);
  CHECK(cell(reduced, 255, 0, forward).busy == ns(10));
  CHECK(cell(reduced, 256, 0, forward).busy == ns(20));
}

TEST_CASE("reduce: the overhead of the collector makes the iterations it overlaps dirty") {
  GpuTrace trace = three_iterations();
  trace.overheads = {{"buffer flush", 390, 510}, {"lazy function loading", 200, 300}};
  CHECK(reduce(trace).dirty_iterations == std::vector<std::int64_t>{1, 2});
}

TEST_CASE("reduce: what no layer launched is listed by name") {
  GpuTrace trace = three_iterations();
  trace.work = {kernel(1, 110, 120, "zeta"),
                kernel(2, 130, 135, "alpha"),
                kernel(3, 320, 324, "zeta"),
                {.kind = GpuWorkKind::copy, .start = 150, .end = 151}};
  trace.launches = {{3, tag(0, 0, forward), 321}};  // too late for the kernel
  CHECK(reduce(trace).unattributed ==
        std::vector<UnattributedKernel>{{"alpha", 1, ns(5)}, {"copy", 1, ns(1)}, {"zeta", 2, ns(10 + 4)}});
  CHECK(reduce(trace).cells.empty());
}

TEST_CASE("reduce: dropped records make a trace incomplete") {
  GpuTrace trace = three_iterations();
  CHECK(reduce(trace).complete());
  trace.dropped_records = 1;
  CHECK_FALSE(reduce(trace).complete());
}

TEST_CASE("reduce: copies between stages are cells with their bytes, sets move none") {
  GpuTrace trace = three_iterations();
  trace.launches = {{1, tag(0, 2, transfer), 105}, {2, tag(0, 2, other), 105}};
  trace.work = {{.kind = GpuWorkKind::copy, .start = 110, .end = 120, .correlation = 1, .bytes = 64},
                {.kind = GpuWorkKind::peer_copy, .start = 120, .end = 125, .correlation = 1, .bytes = 32},
                {.kind = GpuWorkKind::set, .start = 130, .end = 131, .correlation = 2, .bytes = 16}};
  const ReducedTrace reduced = reduce(trace);
  CHECK(cell(reduced, 0, 2, transfer).copied == Bytes{64 + 32});
  CHECK(cell(reduced, 0, 2, transfer).busy == ns(10 + 5));
  CHECK(cell(reduced, 0, 2, other).copied == Bytes{0});
}

TEST_CASE("reduce: memory of a cell changes by what it takes less what it gives") {
  GpuTrace trace = three_iterations();
  trace.launches = {{1, tag(0, 0, forward), 100}};
  const auto event = [](bool allocation, std::uint64_t address, std::int64_t bytes, std::int64_t at) {
    return GpuMemoryEvent{allocation, address, bytes, at, 1, 0};
  };
  trace.memory = {event(false, 9, 50, 110), event(true, 1, 80, 120), event(true, 2, 30, 130),
                  event(false, 1, 80, 140)};
  const GpuCell found = cell(reduce(trace), 0, 0, forward);
  CHECK(found.live_change == Bytes{-50 + 80 + 30 - 80});
  CHECK(found.peak_change == Bytes{-50 + 80 + 30});
  CHECK(found.launches == 0);
  CHECK(reduce(trace).unreleased_allocations == 1);  // address 2
}

TEST_CASE("reduce: of what is taken and given at one time the taking counts first") {
  GpuTrace trace = three_iterations();
  trace.launches = {{1, tag(0, 0, forward), 100}};
  trace.memory = {{false, 1, 80, 110, 1, 0}, {true, 2, 30, 110, 1, 0}};
  CHECK(cell(reduce(trace), 0, 0, forward).peak_change == Bytes{30});
  CHECK(cell(reduce(trace), 0, 0, forward).live_change == Bytes{30 - 80});
}

TEST_CASE("reduce: an allocation is released by a later release of its address alone") {
  GpuTrace trace;
  trace.memory = {{false, 1, 8, 10, 0, 0}, {true, 1, 8, 20, 0, 0}};
  CHECK(reduce(trace).unreleased_allocations == 1);
  trace.memory = {{true, 1, 8, 20, 0, 0}, {false, 1, 8, 30, 0, 0}, {true, 1, 8, 40, 0, 0}};
  CHECK(reduce(trace).unreleased_allocations == 1);
  trace.memory = {{true, 1, 8, 20, 0, 0}, {false, 2, 8, 30, 0, 0}};
  CHECK(reduce(trace).unreleased_allocations == 1);
  trace.memory = {{false, 1, 8, 30, 0, 0}, {true, 1, 8, 20, 0, 0}};
  CHECK(reduce(trace).unreleased_allocations == 0);
}

}  // namespace pipeplan
