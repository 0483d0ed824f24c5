#include "profiler/gpu/reduce.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <span>

namespace pipeplan {
namespace {

// The launches by id and time: finds whom a record belongs to.
class LaunchIndex {
 public:
  explicit LaunchIndex(std::vector<GpuLaunch> launches) : launches_(std::move(launches)) {
    std::ranges::sort(launches_, {}, [](const GpuLaunch& launch) {
      return std::tuple(launch.correlation, launch.at, launch.tag);
    });
  }

  [[nodiscard]] std::span<const GpuLaunch> of(std::uint32_t correlation) const {
    const auto first = std::ranges::lower_bound(launches_, correlation, {}, &GpuLaunch::correlation);
    return {first, std::ranges::upper_bound(launches_, correlation, {}, &GpuLaunch::correlation)};
  }

  // The tag of the last launch of this id that was made by `at`.
  [[nodiscard]] std::optional<LaunchTag> tag(std::uint32_t correlation, std::int64_t at) const {
    const auto same_id = of(correlation);
    const auto later = std::ranges::upper_bound(same_id, at, {}, &GpuLaunch::at);
    if (later == same_id.begin()) return std::nullopt;
    return unpack(std::prev(later)->tag);
  }

 private:
  std::vector<GpuLaunch> launches_;
};

bool made_in(const LaunchTag& tag, const GpuIteration& iteration) {
  return (tag.iteration - iteration.number) % 256 == 0;
}

bool untimed(const GpuWork& work) { return (work.start == 0 && work.end == 0) || work.end < work.start; }

bool overlaps(std::int64_t start, std::int64_t end, const GpuIteration& iteration) {
  return start < iteration.end && end > iteration.start;
}

// What falls into one cell, in the order of the trace; its cell does not depend on that order.
struct Gathered {
  std::vector<std::pair<std::int64_t, std::int64_t>> intervals;
  std::set<std::int64_t> micro_batches;
  std::vector<GpuMemoryEvent> memory;
  Bytes copied;
};

void measure_times(Gathered& gathered, GpuCell& cell) {
  auto& intervals = gathered.intervals;
  if (intervals.empty()) return;
  std::ranges::sort(intervals);
  std::int64_t sum = 0, busy = 0, done_until = intervals.front().first;
  for (const auto& [start, end] : intervals) {
    sum += end - start;
    busy += std::max<std::int64_t>(0, end - std::max(start, done_until));
    done_until = std::max(done_until, end);
  }
  cell.sum = Nanoseconds{sum};
  cell.busy = Nanoseconds{busy};
  cell.span = Nanoseconds{done_until - intervals.front().first};
}

void measure_memory(Gathered& gathered, GpuCell& cell) {
  std::ranges::sort(gathered.memory, {},
                    [](const GpuMemoryEvent& event) { return std::pair(event.at, !event.allocation); });
  for (const GpuMemoryEvent& event : gathered.memory) {
    cell.live_change += Bytes{event.allocation ? event.bytes : -event.bytes};
    cell.peak_change = std::max(cell.peak_change, cell.live_change);
  }
}

GpuCell cell_of(Gathered& gathered) {
  GpuCell cell;
  cell.launches = static_cast<std::int64_t>(gathered.intervals.size());
  cell.micro_batches = static_cast<std::int64_t>(gathered.micro_batches.size());
  cell.copied = gathered.copied;
  measure_times(gathered, cell);
  measure_memory(gathered, cell);
  return cell;
}

std::int64_t count_unreleased(std::vector<GpuMemoryEvent> events) {
  std::ranges::sort(events, {}, [](const GpuMemoryEvent& event) {
    return std::tuple(event.address, event.at, !event.allocation);
  });
  std::int64_t unreleased = 0;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const bool last_of_address = i + 1 == events.size() || events[i + 1].address != events[i].address;
    if (events[i].allocation && (last_of_address || events[i + 1].allocation)) ++unreleased;
  }
  return unreleased;
}

class Reduction {
 public:
  explicit Reduction(const GpuTrace& trace) : trace_(trace), launches_(trace.launches) {}

  ReducedTrace run() {
    for (const GpuWork& work : trace_.work) place(work);
    for (const GpuMemoryEvent& event : trace_.memory) place(event);
    for (auto& [key, gathered] : gathered_) result_.cells.emplace(key, cell_of(gathered));
    for (const auto& [name, kernel] : unattributed_) result_.unattributed.push_back(kernel);
    add_overheads();
    result_.dirty_iterations.assign(dirty_.begin(), dirty_.end());
    result_.unreleased_allocations = count_unreleased(trace_.memory);
    result_.dropped_records = trace_.dropped_records;
    return std::move(result_);
  }

 private:
  void place(const GpuWork& work) {
    if (untimed(work)) return place_untimed(work);
    const GpuIteration* iteration = iteration_at(work.start, work.end);
    const auto tag = launches_.tag(work.correlation, work.start);
    if (iteration == nullptr || (tag && !made_in(*tag, *iteration))) return place_outside(work);
    if (!tag) return place_unattributed(work);
    Gathered& cell = gathered_[{iteration->number, tag->label.layer, tag->label.pass}];
    cell.intervals.emplace_back(work.start, work.end);
    cell.micro_batches.insert(tag->label.micro_batch);
    const bool copies = work.kind == GpuWorkKind::copy || work.kind == GpuWorkKind::peer_copy;
    if (copies) cell.copied += Bytes{work.bytes};
  }

  void place(const GpuMemoryEvent& event) {
    const GpuIteration* iteration = iteration_at(event.at, event.at);
    const auto tag = launches_.tag(event.correlation, event.at);
    if (iteration == nullptr || !tag || !made_in(*tag, *iteration)) return;
    gathered_[{iteration->number, tag->label.layer, tag->label.pass}].memory.push_back(event);
  }

  // Its stamps do not say when it ran, so every iteration that may have launched it is in doubt.
  void place_untimed(const GpuWork& work) {
    ++result_.untimed_records;
    for (const GpuLaunch& launch : launches_.of(work.correlation))
      for (const GpuIteration& iteration : trace_.iterations)
        if (made_in(unpack(launch.tag), iteration)) dirty_.insert(iteration.number);
  }

  void place_outside(const GpuWork& work) {
    ++result_.outside_records;
    mark_dirty(work.start, work.end);
  }

  void place_unattributed(const GpuWork& work) {
    const std::string name = work.name.empty() ? std::string(spelt(work.kind)) : work.name;
    UnattributedKernel& kernel = unattributed_[name];
    kernel.name = name;
    ++kernel.launches;
    kernel.sum += Nanoseconds{work.end - work.start};
  }

  // After all else that makes an iteration dirty.
  void add_overheads() {
    const std::set<std::int64_t> otherwise_dirty = dirty_;
    for (const GpuOverhead& overhead : trace_.overheads) mark_dirty(overhead.start, overhead.end);
    std::ranges::set_difference(dirty_, otherwise_dirty, std::back_inserter(result_.overhead_iterations));
  }

  // The iteration that holds all of the interval; null if there is none.
  [[nodiscard]] const GpuIteration* iteration_at(std::int64_t start, std::int64_t end) const {
    const auto& all = trace_.iterations;
    const auto later = std::ranges::upper_bound(all, start, {}, &GpuIteration::start);
    if (later == all.begin()) return nullptr;
    const GpuIteration& last_started = *std::prev(later);
    return end <= last_started.end ? &last_started : nullptr;
  }

  void mark_dirty(std::int64_t start, std::int64_t end) {
    for (const GpuIteration& iteration : trace_.iterations)
      if (overlaps(start, end, iteration)) dirty_.insert(iteration.number);
  }

  const GpuTrace& trace_;
  LaunchIndex launches_;
  std::map<ReducedTrace::Key, Gathered> gathered_;
  std::map<std::string, UnattributedKernel> unattributed_;
  std::set<std::int64_t> dirty_;
  ReducedTrace result_;
};

}  // namespace

ReducedTrace reduce(const GpuTrace& trace) { return Reduction(trace).run(); }

}  // namespace pipeplan
