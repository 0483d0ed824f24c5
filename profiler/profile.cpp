#include "profiler/profile.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "models/base/assert.hpp"

namespace pipeplan {
namespace {

__extension__ using Wide = __int128;

// The straight line through (x0, y0) and (x1, y1) at x, rounded to the nearest whole (halves up), not below
// 0.
Wide line_at(std::int64_t x0, std::int64_t y0, std::int64_t x1, std::int64_t y1, std::int64_t x) {
  const Wide run = Wide{x1} - x0;
  const Wide doubled = 2 * ((Wide{y1} - y0) * (Wide{x} - x0) + Wide{y0} * run) + run;
  return doubled <= 0 ? Wide{0} : doubled / (2 * run);
}

// Reads every field of a cost off the line through two measured costs; notes if one leaves what a document
// can hold.
class CostLine {
 public:
  CostLine(const LayerCost& low, const LayerCost& high, std::int64_t size)
      : low_(low), high_(high), size_(size) {}

  LayerCost cost() {
    LayerCost cost;
    cost.micro_batch_size = size_;
    cost.forward = Nanoseconds{at(low_.forward.count(), high_.forward.count())};
    cost.backward_is_split = low_.backward_is_split && high_.backward_is_split;
    if (cost.backward_is_split) {
      cost.backward_input = Nanoseconds{at(low_.backward_input.count(), high_.backward_input.count())};
      cost.backward_weight = Nanoseconds{at(low_.backward_weight.count(), high_.backward_weight.count())};
    } else {
      cost.backward_input = Nanoseconds{at(low_.backward().count(), high_.backward().count())};
    }
    cost.optimizer = optimizer();
    cost.activation = Bytes{at(low_.activation.value, high_.activation.value)};
    cost.workspace = Bytes{at(low_.workspace.value, high_.workspace.value)};
    cost.output = Bytes{at(low_.output.value, high_.output.value)};
    if (low_.input && high_.input) cost.input = Bytes{at(low_.input->value, high_.input->value)};
    cost.deferred = Bytes{at(low_.deferred.value, high_.deferred.value)};
    return cost;
  }

  [[nodiscard]] bool too_large() const { return too_large_; }

 private:
  std::int64_t at(std::int64_t low, std::int64_t high) {
    const Wide value = line_at(low_.micro_batch_size, low, high_.micro_batch_size, high, size_);
    too_large_ = too_large_ || value > largest_document_integer;
    return too_large_ ? largest_document_integer : static_cast<std::int64_t>(value);
  }

  // The step does not depend on the micro-batch size: no trend is carried beyond the measured sizes.
  [[nodiscard]] Nanoseconds optimizer() const {
    if (size_ <= low_.micro_batch_size) return low_.optimizer;
    if (size_ >= high_.micro_batch_size) return high_.optimizer;
    const Wide value = line_at(low_.micro_batch_size, low_.optimizer.count(), high_.micro_batch_size,
                               high_.optimizer.count(), size_);
    return Nanoseconds{static_cast<std::int64_t>(value)};
  }

  const LayerCost& low_;
  const LayerCost& high_;
  std::int64_t size_;
  bool too_large_ = false;
};

// A layer that costs nothing on no samples: with it, one measured size gives a line through the origin.
LayerCost cost_of_nothing(const LayerCost& measured) {
  LayerCost nothing;
  nothing.micro_batch_size = 0;
  nothing.backward_is_split = measured.backward_is_split;
  nothing.optimizer = measured.optimizer;
  if (measured.input) nothing.input = Bytes{};
  return nothing;
}

Result<LayerCost> cost_on_line(const LayerCost& low, const LayerCost& high, std::int64_t size,
                               const std::string& layer) {
  CostLine line(low, high, size);
  LayerCost cost = line.cost();
  if (!line.too_large()) return cost;
  return bad_input({}, fmt::format("layer '{}' at micro-batch size {} has a cost above 2^53-1", layer, size));
}

std::string measured_range(const std::vector<LayerCost>& costs) {
  const std::int64_t least = costs.front().micro_batch_size, most = costs.back().micro_batch_size;
  return least == most ? fmt::format("size {} alone", least) : fmt::format("sizes {} to {}", least, most);
}

// Every layer's cost at one size, the smallest that all share (or each layer's own smallest).
std::vector<const LayerCost*> comparable_costs(const Profile& profile) {
  const std::vector<std::int64_t> sizes = profiled_sizes(profile);
  std::vector<const LayerCost*> costs;
  for (const ProfiledLayer& layer : profile.layers) {
    const auto shared = std::find_if(layer.costs.begin(), layer.costs.end(), [&](const LayerCost& cost) {
      return !sizes.empty() && cost.micro_batch_size == sizes.front();
    });
    costs.push_back(shared == layer.costs.end() ? &layer.costs.front() : &*shared);
  }
  return costs;
}

std::int64_t compute_ns(const LayerCost& cost) { return (cost.forward + cost.backward()).count(); }

const std::string& layer_name(const Profile& profile, std::size_t index) {
  return profile.layers[id_of<LayerId>(index)].name;
}

void warn_of_dominant_layer(const Profile& profile, const std::vector<const LayerCost*>& costs,
                            std::vector<Warning>& warnings) {
  if (costs.size() < 2) return;
  double total = 0;
  std::size_t largest = 0;
  for (std::size_t i = 0; i < costs.size(); ++i) {
    total += static_cast<double>(costs[i]->forward.count());
    if (costs[i]->forward > costs[largest]->forward) largest = i;
  }
  const LayerCost& cost = *costs[largest];
  const double share = static_cast<double>(cost.forward.count()) / total;
  if (!(share > 0.9) || cost.forward <= 10 * cost.backward()) return;
  warnings.push_back(
      {WarningCode::dominant_layer,
       fmt::format("layer '{}' takes {} forward, {:.1f} % of all forward time, against {} backward",
                   layer_name(profile, largest), display(cost.forward), 100 * share,
                   display(cost.backward())),
       "if it only loads input, set its times to 0 or leave it out, so that stages balance"});
}

void warn_of_suspect_unit(const Profile& profile, const std::vector<const LayerCost*>& costs,
                          std::vector<Warning>& warnings) {
  std::vector<std::int64_t> nonzero;
  std::size_t largest = 0;
  for (std::size_t i = 0; i < costs.size(); ++i) {
    if (compute_ns(*costs[i]) > 0) nonzero.push_back(compute_ns(*costs[i]));
    if (compute_ns(*costs[i]) > compute_ns(*costs[largest])) largest = i;
  }
  if (nonzero.size() < 2) return;
  std::sort(nonzero.begin(), nonzero.end());
  // The lower median of the others: leaving the largest out moves nothing below it.
  const std::int64_t median = nonzero[(nonzero.size() - 2) / 2];
  const std::int64_t seen = compute_ns(*costs[largest]);
  if (seen / 1000 < median || seen == 1000 * median) return;
  warnings.push_back({WarningCode::unit_suspect,
                      fmt::format("layer '{}' takes {}, {} times the median of the other layers ({})",
                                  layer_name(profile, largest), display(Nanoseconds{seen}), seen / median,
                                  display(Nanoseconds{median})),
                      "check that all times are in the same unit"});
}

ProfiledLayer imported_layer(const Layer& layer, const ImportedCost& imported,
                             std::int64_t micro_batch_size) {
  LayerCost cost;
  cost.micro_batch_size = micro_batch_size;
  cost.forward = imported.forward;
  cost.backward_input = imported.backward_input;
  cost.backward_weight = imported.backward_weight;
  cost.backward_is_split = imported.backward_is_split;
  cost.activation = imported.activation_bytes;
  cost.output = imported.output_bytes;
  ProfiledLayer profiled;
  profiled.name = layer.name;
  profiled.kind = layer.kind;
  profiled.parameter_count = layer.parameter_count;
  profiled.parameter_bytes = imported.parameter_bytes;
  profiled.costs.push_back(cost);
  return profiled;
}

}  // namespace

std::string ProfileSource::setting(const std::string& name) const {
  const auto found = std::ranges::find(settings, name, &std::pair<std::string, std::string>::first);
  return found == settings.end() ? std::string() : found->second;
}

Profile imported_profile(const ImportedModel& imported) {
  const ModelGraph& graph = imported.graph;
  Profile profile;
  profile.model = graph.name();
  profile.model_spec = graph.spec();
  profile.source = {"imported", "", imported.tool, {}};
  profile.edges = graph.edges();
  profile.single_order = graph.has_single_order();
  for (const LayerId id : ids<LayerId>(graph.layers().size()))
    profile.layers.push_back(
        imported_layer(graph.layers()[id], imported.costs[id], imported.micro_batch_size));
  return profile;
}

std::vector<std::int64_t> profiled_sizes(const Profile& profile) {
  std::vector<std::int64_t> shared;
  if (profile.layers.empty()) return shared;
  for (const LayerCost& cost : profile.layers.front().costs) shared.push_back(cost.micro_batch_size);
  for (const ProfiledLayer& layer : profile.layers)
    std::erase_if(shared, [&](std::int64_t size) {
      return std::none_of(layer.costs.begin(), layer.costs.end(),
                          [&](const LayerCost& cost) { return cost.micro_batch_size == size; });
    });
  return shared;
}

Result<LayerCost> cost_at(const ProfiledLayer& layer, std::int64_t micro_batch_size,
                          Extrapolation extrapolation) {
  const std::vector<LayerCost>& costs = layer.costs;
  PIPEPLAN_ASSERT(!costs.empty());
  if (micro_batch_size < 1)
    return bad_usage(fmt::format("micro-batch size is {}, wanted at least 1", micro_batch_size));
  const auto above =
      std::lower_bound(costs.begin(), costs.end(), micro_batch_size,
                       [](const LayerCost& cost, std::int64_t size) { return cost.micro_batch_size < size; });
  if (above != costs.end() && above->micro_batch_size == micro_batch_size) return *above;
  const bool outside = above == costs.begin() || above == costs.end();
  if (outside && extrapolation == Extrapolation::refused)
    return bad_input({},
                     fmt::format("layer '{}' has no cost at micro-batch size {}, measured at {}", layer.name,
                                 micro_batch_size, measured_range(costs)),
                     "profile at this size, or allow a guess with --extrapolate");
  if (costs.size() == 1)
    return cost_on_line(cost_of_nothing(costs[0]), costs[0], micro_batch_size, layer.name);
  const auto high = above == costs.begin() ? above + 1 : above == costs.end() ? above - 1 : above;
  return cost_on_line(*(high - 1), *high, micro_batch_size, layer.name);
}

std::vector<Warning> profile_warnings(const Profile& profile) {
  std::vector<Warning> warnings;
  if (profile.layers.empty()) return warnings;
  const std::vector<const LayerCost*> costs = comparable_costs(profile);
  warn_of_dominant_layer(profile, costs, warnings);
  warn_of_suspect_unit(profile, costs, warnings);
  return warnings;
}

}  // namespace pipeplan
