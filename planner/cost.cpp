#include "planner/cost.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "models/base/assert.hpp"

namespace pipeplan {
namespace {

__extension__ using Wide = __int128;

constexpr std::int64_t time_limit = largest_total_time.count();
constexpr std::int64_t byte_limit = largest_total_bytes.value;

// a + b, cut at `limit`: a sum that is too large stays recognisable and is refused once at the end.
std::int64_t capped_sum(std::int64_t a, std::int64_t b, std::int64_t limit) {
  return b > limit - a ? limit : a + b;
}

std::int64_t capped_total(const std::vector<std::int64_t>& sizes) {
  std::int64_t total = 0;
  for (const std::int64_t bytes : sizes) total = capped_sum(total, bytes, byte_limit);
  return total;
}

void extend(std::vector<std::int64_t>& sums, std::int64_t next, std::int64_t limit) {
  sums.push_back(capped_sum(sums.back(), next, limit));
}

void append_layer(CostTable& table, const LayerCost& cost, Bytes parameter_bytes) {
  extend(table.forward, cost.forward.count(), time_limit);
  extend(table.backward_input, cost.backward_input.count(), time_limit);
  extend(table.backward_weight, cost.backward_weight.count(), time_limit);
  extend(table.optimizer, cost.optimizer.count(), time_limit);
  extend(table.deferred, cost.deferred.value, byte_limit);
  extend(table.parameter, parameter_bytes.value, byte_limit);
  table.workspace.push_back(cost.workspace.value);
}

// What is kept of layer `i`, by whether it and the layer before are recomputed.
void append_kept(CostTable& table, const std::vector<LayerCost>& costs, const std::vector<bool>& recomputed,
                 std::size_t i) {
  const bool reruns = i < recomputed.size() && recomputed[i];
  const bool goes_on = reruns && i > 0 && recomputed[i - 1];
  const LayerCost& cost = costs[i];
  const std::int64_t input = cost.input ? cost.input->value : table.cut_bytes[i];
  extend(table.rerun, reruns ? cost.forward.count() : 0, time_limit);
  extend(table.rerun_activation, reruns ? cost.activation.value : 0, byte_limit);
  extend(table.activation, goes_on ? 0 : reruns ? input : cost.activation.value, byte_limit);
  table.entering.push_back(goes_on ? input : 0);
}

CostTable empty_table(std::int64_t layer_count) {
  CostTable table;
  table.layer_count = layer_count;
  for (auto* sums :
       {&table.forward, &table.backward_input, &table.backward_weight, &table.optimizer, &table.rerun,
        &table.activation, &table.rerun_activation, &table.deferred, &table.parameter})
    sums->assign(1, 0);
  return table;
}

std::int64_t edge_bytes(const Edge& edge, const ProfiledLayer& producer, Bytes output,
                        std::int64_t micro_batch_size) {
  if (!edge.bytes) return output.value;
  const std::int64_t given_for = producer.costs.front().micro_batch_size;
  const Wide scaled = (static_cast<Wide>(edge.bytes->value) * micro_batch_size + given_for - 1) / given_for;
  return static_cast<std::int64_t>(std::min<Wide>(scaled, byte_limit));
}

// Edges are sorted by (from, to). Walking back over one producer's edges, the largest so far is what the cuts
// between the previous consumer and this one carry of it.
std::vector<std::int64_t> relayed_cut_bytes(const Profile& profile, const std::vector<LayerCost>& costs,
                                            std::int64_t micro_batch_size) {
  std::vector<Wide> change(costs.size() + 2);
  std::int64_t largest = 0;
  for (std::size_t i = profile.edges.size(); i-- > 0;) {
    const Edge& edge = profile.edges[i];
    const bool last_of_producer = i + 1 == profile.edges.size() || profile.edges[i + 1].from != edge.from;
    if (last_of_producer) largest = 0;
    largest = std::max(largest, edge_bytes(edge, profile.layers[edge.from], costs[edge.from.index()].output,
                                           micro_batch_size));
    const bool first_of_producer = i == 0 || profile.edges[i - 1].from != edge.from;
    const LayerId nearer = first_of_producer ? edge.from : profile.edges[i - 1].to;
    change[nearer.index() + 1] += largest;
    change[edge.to.index() + 1] -= largest;
  }
  std::vector<std::int64_t> cuts;
  Wide crossing = 0;
  for (std::size_t cut = 0; cut <= costs.size(); ++cut) {
    crossing += change[cut];
    cuts.push_back(static_cast<std::int64_t>(std::min<Wide>(crossing, byte_limit)));
  }
  return cuts;
}

Result<void> check_time(const Profile& profile, const CostTable& table, std::int64_t micro_batch_count) {
  std::int64_t total = capped_sum(table.forward.back(), table.backward_input.back(), time_limit);
  total = capped_sum(total, table.backward_weight.back(), time_limit);
  total = capped_sum(total, table.rerun.back(), time_limit);
  if (total < time_limit && checked_product(total, micro_batch_count, time_limit)) return {};
  return bad_input(profile.model,
                   fmt::format("{} ns per micro-batch times {} micro-batches are more than {} ns in all",
                               total, micro_batch_count, time_limit));
}

Result<void> check_bytes(const Profile& profile, std::string_view what, std::int64_t bytes,
                         std::int64_t times) {
  if (checked_product(bytes, times, byte_limit - 1)) return {};
  return bad_input(profile.model, fmt::format("{} of {} bytes, held {} times, are more than {} bytes", what,
                                              bytes, times, byte_limit));
}

Result<void> check_totals(const Profile& profile, const CostTable& table, std::int64_t micro_batch_count) {
  PIPEPLAN_CHECK(check_time(profile, table, micro_batch_count));
  PIPEPLAN_CHECK(check_bytes(profile, "parameters", table.parameter.back(),
                             static_cast<std::int64_t>(largest_state_factor)));
  PIPEPLAN_CHECK(check_bytes(profile, "activations",
                             capped_sum(table.activation.back(), table.rerun_activation.back(), byte_limit),
                             micro_batch_count));
  PIPEPLAN_CHECK(check_bytes(profile, "tensors between the two halves of the backward", table.deferred.back(),
                             micro_batch_count));
  PIPEPLAN_CHECK(
      check_bytes(profile, "inputs of recomputed layers", capped_total(table.entering), micro_batch_count));
  return check_bytes(profile, "tensors over all cuts", capped_total(table.cut_bytes), micro_batch_count);
}

}  // namespace

StageTimes CostTable::stage_times(std::int64_t first, std::int64_t end, double speed_factor) const {
  PIPEPLAN_ASSERT(0 <= first && first <= end && end <= layer_count);
  const Ratio speed(speed_factor);
  const auto time = [&](const std::vector<std::int64_t>& sums) {
    return Nanoseconds{
        speed.divide_up(sums[static_cast<std::size_t>(end)] - sums[static_cast<std::size_t>(first)])};
  };
  return {time(forward), time(backward_input), time(backward_weight), time(optimizer), time(rerun)};
}

std::int64_t CostTable::stage_time(std::int64_t first, std::int64_t end, const Ratio& speed) const {
  const auto from = static_cast<std::size_t>(first);
  const auto to = static_cast<std::size_t>(end);
  return speed.divide_up(forward[to] - forward[from]) +
         speed.divide_up(backward_input[to] - backward_input[from]) +
         speed.divide_up(backward_weight[to] - backward_weight[from]) +
         speed.divide_up(rerun[to] - rerun[from]);
}

Result<CostTable> make_cost_table(const Profile& profile, std::int64_t micro_batch_size,
                                  std::int64_t micro_batch_count, Extrapolation extrapolation,
                                  const std::vector<bool>& recomputed) {
  if (micro_batch_size < 1 || micro_batch_count < 1)
    return bad_usage(fmt::format("micro-batch size {} and count {}, wanted at least 1 of each",
                                 micro_batch_size, micro_batch_count));
  CostTable table = empty_table(static_cast<std::int64_t>(profile.layers.size()));
  std::vector<LayerCost> costs;
  for (const ProfiledLayer& layer : profile.layers) {
    PIPEPLAN_TRY(cost, cost_at(layer, micro_batch_size, extrapolation));
    append_layer(table, cost, layer.parameter_bytes);
    costs.push_back(cost);
  }
  table.cut_bytes = relayed_cut_bytes(profile, costs, micro_batch_size);
  for (std::size_t i = 0; i < costs.size(); ++i) append_kept(table, costs, recomputed, i);
  PIPEPLAN_CHECK(check_totals(profile, table, micro_batch_count));
  return table;
}

}  // namespace pipeplan
