// From reduced traces to a profile: the outline with measured times in it.

#include <fmt/format.h>

#include <algorithm>

#include "profiler/gpu/reduce.hpp"
#include "profiler/layer_samples.hpp"
#include "profiler/statistics.hpp"

namespace pipeplan {
namespace {

constexpr double largest_calm_spread_fraction = 0.05;

std::string trace_place(const std::string& source, std::size_t number) {
  return fmt::format("{}#/traces/{}", source, number);
}

// Every layer of the outline has one cost per trace, at the trace's micro-batch size.
Result<void> check_sizes(const GpuRecording& recording, const std::string& source) {
  std::vector<std::int64_t> recorded, wanted;
  for (const GpuTrace& trace : recording.traces) recorded.push_back(trace.micro_batch_size);
  std::ranges::sort(recorded);
  for (const ProfiledLayer& layer : recording.outline.layers) {
    wanted.clear();
    for (const LayerCost& cost : layer.costs) wanted.push_back(cost.micro_batch_size);
    if (wanted != recorded)
      return bad_input(
          fmt::format("{}#/traces", source),
          fmt::format("are of micro-batch sizes {}, but layer '{}' of the outline has costs at {}",
                      fmt::join(recorded, ", "), layer.name, fmt::join(wanted, ", ")));
  }
  return {};
}

Result<void> check_layers(const ReducedTrace& reduced, const Profile& outline, const std::string& where) {
  const auto count = static_cast<std::int64_t>(outline.layers.size());
  for (const auto& [key, cell] : reduced.cells)
    if (const std::int64_t layer = std::get<1>(key); layer >= count)
      return bad_input(where,
                       fmt::format("has work of layer {}, but the outline has {} layers", layer, count));
  return {};
}

// The iterations that count, ascending.
Result<std::vector<std::int64_t>> counting_iterations(const GpuTrace& trace, const ReducedTrace& reduced,
                                                      const std::string& where) {
  if (!reduced.complete())
    return bad_input(
        where,
        fmt::format("lacks {} records that the collector dropped, wanted all", reduced.dropped_records),
        "record again with fewer or smaller iterations");
  std::vector<std::int64_t> counting;
  for (const GpuIteration& iteration : trace.iterations)
    if (!std::ranges::binary_search(reduced.dirty_iterations, iteration.number))
      counting.push_back(iteration.number);
  if (!counting.empty()) return counting;
  if (!reduced.overhead_iterations.empty()) return reduced.overhead_iterations;
  return bad_input(
      where,
      fmt::format("has no iteration that counts: of {}, {} are disturbed ({} untimed records, {} "
                  "outside of their iteration, {} spans of overhead)",
                  trace.iterations.size(), reduced.dirty_iterations.size(), reduced.untimed_records,
                  reduced.outside_records, trace.overheads.size()),
      "record again with more warm-ups and iterations");
}

// See launch_gap_setting.
Nanoseconds launch_gap(const GpuTrace& trace, const ReducedTrace& reduced,
                       const std::vector<std::int64_t>& iterations) {
  if (!trace.plain_iteration) return {};
  std::vector<Nanoseconds> gaps;
  for (const std::int64_t iteration : iterations) {
    Nanoseconds busy{};
    std::int64_t launches = 0;
    for (const auto& [key, cell] : reduced.cells)
      if (std::get<0>(key) == iteration) busy += cell.busy, launches += cell.launches;
    const Nanoseconds between = std::max(*trace.plain_iteration - busy, Nanoseconds{});
    gaps.push_back(between / std::max<std::int64_t>(launches, 1));
  }
  return median(gaps);
}

// Reads the times of one trace into the costs of its micro-batch size.
class CostFiller {
 public:
  CostFiller(const ReducedTrace& reduced, std::vector<std::int64_t> iterations, Nanoseconds gap)
      : reduced_(reduced), iterations_(std::move(iterations)), gap_(gap) {}

  // The first iteration in which the layer did nothing in its forward, if there is one.
  [[nodiscard]] std::optional<std::int64_t> idle_forward(std::int64_t layer) const {
    for (const std::int64_t iteration : iterations_) {
      const GpuCell* cell = find(iteration, layer, LayerPass::forward);
      if (cell == nullptr || cell->launches == 0) return iteration;
    }
    return std::nullopt;
  }

  void fill(std::int64_t layer, LayerCost& cost) const {
    LayerSamples samples;
    for (const std::int64_t iteration : iterations_)
      samples.add({.forward = time(iteration, layer, LayerPass::forward),
                   .backward_input = time(iteration, layer, LayerPass::backward_input),
                   .backward_weight = time(iteration, layer, LayerPass::backward_weight),
                   .optimizer = time(iteration, layer, LayerPass::optimizer)});
    samples.summarize(cost);
  }

 private:
  [[nodiscard]] const GpuCell* find(std::int64_t iteration, std::int64_t layer, LayerPass pass) const {
    const auto found = reduced_.cells.find({iteration, layer, pass});
    return found == reduced_.cells.end() ? nullptr : &found->second;
  }

  // Of one micro-batch, rounded to the nearest; 0 where the pass did nothing.
  [[nodiscard]] Nanoseconds time(std::int64_t iteration, std::int64_t layer, LayerPass pass) const {
    const GpuCell* cell = find(iteration, layer, pass);
    const std::int64_t count = cell == nullptr ? 0 : cell->micro_batches;
    if (count == 0) return {};
    return (cell->busy + gap_ * cell->launches + Nanoseconds{count / 2}) / count;
  }

  const ReducedTrace& reduced_;
  std::vector<std::int64_t> iterations_;
  Nanoseconds gap_;
};

LayerCost& cost_of_size(ProfiledLayer& layer, std::int64_t size) {
  return *std::ranges::find(layer.costs, size, &LayerCost::micro_batch_size);
}

void warn_of_overhead(const GpuTrace& trace, const ReducedTrace& reduced,
                      const std::vector<std::int64_t>& counting, std::vector<Warning>& warnings) {
  if (counting != reduced.overhead_iterations) return;
  warnings.push_back(
      {WarningCode::noisy_times,
       fmt::format(
           "the collector was at work in all {} iterations at micro-batch size {} ({} spans of overhead)",
           trace.iterations.size(), trace.micro_batch_size, trace.overheads.size()),
       "kernel times hold, but record again with more warm-ups for calm iterations"});
}

void warn_of_unattributed(const GpuTrace& trace, const ReducedTrace& reduced,
                          std::vector<Warning>& warnings) {
  if (reduced.unattributed.empty()) return;
  std::int64_t launches = 0;
  Nanoseconds sum{};
  for (const UnattributedKernel& kernel : reduced.unattributed) {
    launches += kernel.launches;
    sum += kernel.sum;
  }
  const UnattributedKernel& longest =
      *std::ranges::max_element(reduced.unattributed, {}, &UnattributedKernel::sum);
  warnings.push_back(
      {WarningCode::unattributed_work,
       fmt::format("{} launches at micro-batch size {} belong to no layer ({}), most time in '{}' ({})",
                   launches, trace.micro_batch_size, display(sum), longest.name, display(longest.sum)),
       "their time is in no layer's cost; look the names up in the trace"});
}

void warn_of_noise(Profile& profile, std::int64_t size, std::vector<Warning>& warnings) {
  const ProfiledLayer* noisiest = nullptr;
  double largest = largest_calm_spread_fraction;
  std::int64_t count = 0;
  for (ProfiledLayer& layer : profile.layers) {
    const double spread = cost_of_size(layer, size).spread_fraction.value_or(0);
    if (spread > largest_calm_spread_fraction) ++count;
    if (spread <= largest) continue;
    largest = spread;
    noisiest = &layer;
  }
  if (noisiest == nullptr) return;
  warnings.push_back(
      {WarningCode::noisy_times,
       fmt::format(
           "times of {} of {} layers at micro-batch size {} spread by over 5 %, most of all '{}' by {:.1f} %",
           count, profile.layers.size(), size, noisiest->name, 100 * largest),
       "take more samples, or let nothing else run on the GPU"});
}

// One after the other, as 950,870.
void note_gap(Nanoseconds gap, ProfileSource& source) {
  const auto known =
      std::ranges::find(source.settings, launch_gap_setting, &std::pair<std::string, std::string>::first);
  if (known == source.settings.end())
    source.settings.emplace_back(launch_gap_setting, fmt::to_string(gap.count()));
  else
    known->second += fmt::format(",{}", gap.count());
}

Result<void> read_trace(const GpuTrace& trace, const std::string& where, ReducedProfile& result) {
  const ReducedTrace reduced = reduce(trace);
  PIPEPLAN_TRY(iterations, counting_iterations(trace, reduced, where));
  PIPEPLAN_CHECK(check_layers(reduced, result.profile, where));
  const Nanoseconds gap = launch_gap(trace, reduced, iterations);
  note_gap(gap, result.profile.source);
  const CostFiller filler(reduced, iterations, gap);
  std::int64_t number = 0;
  for (ProfiledLayer& layer : result.profile.layers) {
    if (const auto idle = filler.idle_forward(number))
      return bad_input(where,
                       fmt::format("has no work of layer '{}' in its forward in iteration {}, wanted some",
                                   layer.name, *idle));
    filler.fill(number++, cost_of_size(layer, trace.micro_batch_size));
  }
  warn_of_overhead(trace, reduced, iterations, result.warnings);
  warn_of_unattributed(trace, reduced, result.warnings);
  warn_of_noise(result.profile, trace.micro_batch_size, result.warnings);
  return {};
}

}  // namespace

Result<ReducedProfile> reduce(const GpuRecording& recording, const std::string& source) {
  PIPEPLAN_CHECK(check_sizes(recording, source));
  ReducedProfile result{recording.outline, {}};
  for (std::size_t i = 0; i < recording.traces.size(); ++i)
    PIPEPLAN_CHECK(read_trace(recording.traces[i], trace_place(source, i), result));
  if (std::ranges::any_of(recording.traces, &GpuTrace::fabricated))
    result.profile.source.settings.emplace_back(trace_setting, "fabricated");
  return result;
}

}  // namespace pipeplan
