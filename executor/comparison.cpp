#include "executor/comparison.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "models/base/assert.hpp"
#include "profiler/statistics.hpp"

namespace pipeplan {
namespace {

using SpanByOp = std::map<Op, const Span*>;

SpanByOp index_of(const Timeline& timeline) {
  SpanByOp spans;
  for (const Span& span : timeline.spans) spans.emplace(span.op, &span);
  return spans;
}

Nanoseconds duration(const Span& span) { return span.end - span.start; }

std::vector<OpComparison> compare_ops(const SpanByOp& simulated, const SpanByOp& measured) {
  using Key = std::pair<StageId, OpKind>;
  std::map<Key, std::pair<std::vector<Nanoseconds>, std::vector<Nanoseconds>>> durations;
  for (const auto& [op, span] : simulated) {
    auto& [predicted, seen] = durations[{op.stage, op.kind}];
    predicted.push_back(duration(*span));
    seen.push_back(duration(*measured.at(op)));
  }
  std::vector<OpComparison> ops;
  for (const auto& [key, both] : durations)
    ops.push_back({key.first, key.second, {median(both.first), median(both.second)}});
  return ops;
}

std::vector<WorstOp> worst_ops(const SpanByOp& simulated, const SpanByOp& measured) {
  std::vector<WorstOp> all;
  for (const auto& [op, span] : simulated) all.push_back({op, {duration(*span), duration(*measured.at(op))}});
  std::ranges::stable_sort(all, [](const WorstOp& a, const WorstOp& b) {
    return std::abs(a.duration.error_fraction()) > std::abs(b.duration.error_fraction());
  });
  all.resize(std::min<std::size_t>(all.size(), 5));
  return all;
}

std::int64_t count_inversions(const Timeline& simulated, const SpanByOp& measured) {
  std::map<RankId, const Span*> last;
  std::int64_t inversions = 0;
  for (const Span& span : simulated.spans) {
    const Span* now = measured.at(span.op);
    const Span*& before = last[span.rank];
    if (before != nullptr && before->start > now->start) ++inversions;
    before = now;
  }
  return inversions;
}

Json compared_json(const Compared& compared) {
  return {{"predicted_ns", compared.predicted.count()},
          {"measured_ns", compared.measured.count()},
          {"error_fraction", compared.error_fraction()}};
}

}  // namespace

double Compared::error_fraction() const {
  if (predicted == measured) return 0;
  if (measured == Nanoseconds::zero()) return 1;
  return static_cast<double>((predicted - measured).count()) / static_cast<double>(measured.count());
}

double bubble_fraction(const Timeline& timeline) {
  Nanoseconds busy{};
  for (const Span& span : timeline.spans) busy += duration(span);
  const double whole =
      static_cast<double>(timeline.makespan.count()) * static_cast<double>(timeline.memory.size());
  return whole > 0 ? 1 - static_cast<double>(busy.count()) / whole : 0;
}

Comparison compare(const Timeline& simulated, const Timeline& measured) {
  PIPEPLAN_ASSERT(simulated.spans.size() == measured.spans.size());
  PIPEPLAN_ASSERT(simulated.memory.size() == measured.memory.size());
  const SpanByOp predicted = index_of(simulated);
  const SpanByOp seen = index_of(measured);
  Comparison comparison{.iteration = {simulated.iteration, measured.iteration},
                        .predicted_bubble_fraction = bubble_fraction(simulated),
                        .measured_bubble_fraction = bubble_fraction(measured),
                        .ops = compare_ops(predicted, seen),
                        .worst = worst_ops(predicted, seen),
                        .memory = {},
                        .order_inversions = count_inversions(simulated, seen)};
  for (const RankId rank : ids<RankId>(simulated.memory.size()))
    comparison.memory.push_back({simulated.memory[rank].peak, measured.memory[rank].peak});
  return comparison;
}

Json to_json(const Comparison& comparison) {
  Json json = {{"schema", "pipeplan.comparison/1"},
               {"iteration", compared_json(comparison.iteration)},
               {"predicted_bubble_fraction", comparison.predicted_bubble_fraction},
               {"measured_bubble_fraction", comparison.measured_bubble_fraction},
               {"order_inversions", comparison.order_inversions},
               {"ops", Json::array()},
               {"worst_ops", Json::array()},
               {"memory", Json::array()}};
  for (const OpComparison& op : comparison.ops) {
    Json entry = {{"stage", op.stage.value}, {"op", spelt(op.kind)}};
    entry.update(compared_json(op.median));
    json["ops"].push_back(std::move(entry));
  }
  for (const WorstOp& op : comparison.worst) {
    Json entry = {{"op", op_text(op.op)}};
    entry.update(compared_json(op.duration));
    json["worst_ops"].push_back(std::move(entry));
  }
  for (const RankId rank : ids<RankId>(comparison.memory.size())) {
    const RankComparison& memory = comparison.memory[rank];
    json["memory"].push_back({{"rank", rank.value},
                              {"predicted_peak_bytes", memory.predicted.total().value},
                              {"measured_peak_bytes", memory.measured.total().value},
                              {"equal", memory.equal()},
                              {"predicted_items", memory_items_json(memory.predicted)},
                              {"measured_items", memory_items_json(memory.measured)}});
  }
  return json;
}

}  // namespace pipeplan
