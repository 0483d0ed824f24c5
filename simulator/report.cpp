#include "simulator/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "simulator/run_order.hpp"
#include "simulator/simulate.hpp"

namespace pipeplan {
namespace {

__extension__ using Wide = __int128;

// One rounding to double for each side and one division: the same bits on every machine.
double ratio(Wide part, Wide whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

constexpr double transfer_bound_fraction = 0.3;

struct RankUse {
  Nanoseconds busy{};
  Nanoseconds recompute{};  // of busy
  std::optional<Nanoseconds> first_start = {};
  Nanoseconds last_end{};
};

// Which micro-batches of which stages an R op has run again.
std::set<std::pair<StageId, MicrobatchId>> recomputed_apart(const Timeline& timeline) {
  std::set<std::pair<StageId, MicrobatchId>> apart;
  for (const Span& span : timeline.spans)
    if (span.op.kind == OpKind::recompute) apart.insert({span.op.stage, span.op.micro_batch});
  return apart;
}

// The part of a span that recomputes: of a fused backward as large as `times` say.
Nanoseconds recomputing_time(const Span& span, const StageTimes& times, bool apart) {
  if (span.op.kind == OpKind::recompute) return span.end - span.start;
  const Nanoseconds whole = op_time(span.op.kind, times, apart);
  const Nanoseconds again = whole - op_time(span.op.kind, times, true);
  if (again == Nanoseconds{0}) return again;
  const Wide scaled = Wide{(span.end - span.start).count()} * again.count() / whole.count();
  return Nanoseconds{static_cast<std::int64_t>(scaled)};
}

PerId<RankId, RankUse> rank_uses(const Timeline& timeline, std::size_t rank_count,
                                 const PipelineCosts& costs) {
  const auto apart = recomputed_apart(timeline);
  PerId<RankId, RankUse> uses(rank_count);
  for (const Span& span : timeline.spans) {
    RankUse& use = uses[span.rank];
    use.busy += span.end - span.start;
    use.recompute += recomputing_time(span, costs.times[span.op.stage],
                                      apart.contains({span.op.stage, span.op.micro_batch}));
    use.first_start = std::min(use.first_start.value_or(span.start), span.start);
    use.last_end = std::max(use.last_end, span.end);
  }
  return uses;
}

void add_ranks(Report& report, const PerId<RankId, RankUse>& uses, const Timeline& timeline) {
  for (const RankId rank : ids<RankId>(uses.size())) {
    const RankMemory& memory = timeline.memory[rank];
    const Nanoseconds busy = uses[rank].busy;
    report.ranks.push_back({busy,
                            timeline.makespan - busy,
                            ratio(uses[rank].recompute.count(), busy.count()),
                            memory.peak_in_flight,
                            memory.peak,
                            memory.peak_at,
                            {}});
  }
}

void add_fractions(Report& report, const PerId<RankId, RankUse>& uses, const Timeline& timeline) {
  Wide busy = 0, sending = 0;
  for (const RankUse& use : uses) {
    busy += use.busy.count();
    report.span = std::max(report.span, use.last_end - use.first_start.value_or(Nanoseconds{0}));
  }
  for (const Transfer& transfer : timeline.transfers) sending += (transfer.end - transfer.start).count();
  const auto ranks = static_cast<Wide>(uses.size());
  const Wide total = ranks * timeline.makespan.count(), span_total = ranks * report.span.count();
  report.bubble_fraction = ratio(total - busy, total);
  report.bubble_ratio = ratio(total - busy, busy);
  report.bubble_fraction_span = ratio(span_total - busy, span_total);
  report.utilization = 1 - report.bubble_fraction;
  report.transfer_fraction = ratio(sending, sending + busy);
}

// An all-reduce delays the step of its rank; what that adds to the iteration.
Nanoseconds all_reduce_in_step(const Report& report, const PerId<RankId, RankUse>& uses,
                               const Schedule& schedule, const PipelineCosts& costs) {
  PerId<RankId, Nanoseconds> steps(uses.size());
  Nanoseconds all_reduce{};
  const PerId<StageId, RankId> homes = stage_homes(schedule);
  for (const StageId stage : ids<StageId>(homes.size())) {
    steps[homes[stage]] += costs.times[stage].optimizer;
    all_reduce += costs.times[stage].all_reduce;
  }
  if (all_reduce == Nanoseconds{0}) return all_reduce;
  Nanoseconds without = report.makespan;
  for (const RankId rank : ids<RankId>(uses.size()))
    without = std::max(without, uses[rank].last_end + steps[rank]);
  return std::max(Nanoseconds{0}, report.iteration - without);
}

void add_limits(Report& report, const Schedule& schedule, const PipelineCosts& costs) {
  const PerId<StageId, RankId> homes = stage_homes(schedule);
  for (const StageId stage : ids<StageId>(homes.size()))
    report.ranks[homes[stage]].memory_limit = costs.memory[stage].limit;
}

void add_warnings(Report& report, const Schedule& schedule) {
  if (report.transfer_fraction > transfer_bound_fraction)
    report.warnings.push_back(
        {WarningCode::transfer_bound,
         fmt::format("transfers take {:.1f} % of all compute and transfer time, above {:.0f} %",
                     100 * report.transfer_fraction, 100 * transfer_bound_fraction),
         "try a faster link, compressed activations or larger micro-batches"});
  const auto ranks = static_cast<std::int64_t>(schedule.ranks.size());
  if (schedule.micro_batch_count < ranks)
    report.warnings.push_back(
        {WarningCode::few_micro_batches,
         fmt::format("{} micro-batch{} on {} ranks: idle for {:.1f} % of the time",
                     schedule.micro_batch_count, schedule.micro_batch_count == 1 ? "" : "es", ranks,
                     100 * report.bubble_fraction),
         fmt::format("try at least {} micro-batches, or fewer stages", 4 * ranks)});
}

bool stages_are_uniform(const PipelineCosts& costs) {
  const StageTimes& first = costs.times.front();
  return std::all_of(costs.times.begin(), costs.times.end(), [&](const StageTimes& times) {
    return times.forward == first.forward && times.backward() == first.backward() &&
           times.recompute == first.recompute;
  });
}

bool recomputes_apart(const Schedule& schedule) {
  const auto is_recompute = [](const Op& op) { return op.kind == OpKind::recompute; };
  return std::ranges::any_of(schedule.ranks,
                             [&](const auto& row) { return std::ranges::any_of(row, is_recompute); });
}

bool transfers_are_free(const PipelineCosts& costs) {
  return std::all_of(costs.boundaries.begin(), costs.boundaries.end(), [&](const BoundaryCosts& boundary) {
    Nanoseconds link_free{};
    return pass_link(costs.transfers, boundary, Nanoseconds{0}, link_free).end == Nanoseconds{0};
  });
}

// N+k-1: how many micro-batch times the pipeline takes.
Wide slots(const BubbleFormula& formula) {
  PIPEPLAN_ASSERT(formula.devices >= 1 && formula.micro_batches >= 1);
  return Wide{formula.devices} + formula.micro_batches - 1;
}

Json closed_form_json(const std::optional<ClosedForm>& form) {
  if (!form) return nullptr;
  return {{"makespan_ns", form->makespan.count()},
          {"bubble_fraction", form->bubble_fraction},
          {"bubble_ratio", form->bubble_ratio}};
}

Json rank_json(RankId id, const RankReport& rank) {
  return {{"rank", id.value},
          {"busy_ns", rank.busy.count()},
          {"idle_ns", rank.idle.count()},
          {"recompute_fraction", rank.recompute_fraction},
          {"peak_in_flight", rank.peak_in_flight},
          {"peak_memory_bytes", rank.peak_memory.total().value},
          {"peak_at_ns", rank.peak_at.count()},
          {"memory_limit_bytes", rank.memory_limit ? Json(rank.memory_limit->value) : Json(nullptr)},
          {"memory_items", memory_items_json(rank.peak_memory)}};
}

}  // namespace

std::optional<ClosedForm> closed_form(const Schedule& schedule, const PipelineCosts& costs) {
  if (!schedule.named || recomputes_apart(schedule) || !stages_are_uniform(costs) ||
      !transfers_are_free(costs))
    return std::nullopt;
  const Nanoseconds pass = costs.times.front().per_micro_batch();
  if (pass == Nanoseconds{0}) return std::nullopt;
  const std::int64_t p = schedule.stage_count, m = schedule.micro_batch_count;
  // Huang et al. 2019, section 2.3; Narayanan et al. 2021 (Megatron-LM), section 2.2.1: the ratio (p-1)/m.
  if (schedule.kind != ScheduleKind::naive)
    return ClosedForm{(m + p - 1) * pass, ratio(p - 1, m + p - 1), ratio(p - 1, m)};
  return ClosedForm{m * p * pass, ratio(p - 1, p), static_cast<double>(p - 1)};
}

Report summarize(const Timeline& timeline, const Schedule& schedule, const PipelineCosts& costs,
                 std::optional<std::int64_t> global_batch) {
  Report report;
  report.iteration = timeline.iteration;
  report.makespan = timeline.makespan;
  report.step = timeline.step();
  const PerId<RankId, RankUse> uses = rank_uses(timeline, schedule.ranks.size(), costs);
  add_ranks(report, uses, timeline);
  add_fractions(report, uses, timeline);
  add_limits(report, schedule, costs);
  report.all_reduce = all_reduce_in_step(report, uses, schedule, costs);
  if (global_batch && report.iteration > Nanoseconds{0})
    report.samples_per_second = ratio(Wide{*global_batch} * std::nano::den, report.iteration.count());
  report.closed_form = closed_form(schedule, costs);
  add_warnings(report, schedule);
  return report;
}

Result<Report> summarize(const Timeline& timeline, const Plan& plan, const Profile& profile) {
  PIPEPLAN_TRY(schedule, make_schedule(plan));
  PIPEPLAN_TRY(costs, pipeline_costs(plan, profile, plan.cluster));
  if (timeline.memory.size() != schedule.ranks.size())
    return bad_input("timeline#/memory", fmt::format("holds {} ranks, wanted {} as in the plan",
                                                     timeline.memory.size(), schedule.ranks.size()));
  return summarize(timeline, schedule, costs, plan.global_batch());
}

Json to_json(const Report& report) {
  Json json{
      {"schema", "pipeplan.report/1"},
      {"iteration_ns", report.iteration.count()},
      {"makespan_ns", report.makespan.count()},
      {"step_ns", report.step.count()},
      {"all_reduce_ns", report.all_reduce.count()},
      {"span_ns", report.span.count()},
      {"bubble_fraction", report.bubble_fraction},
      {"bubble_ratio", report.bubble_ratio},
      {"bubble_fraction_span", report.bubble_fraction_span},
      {"utilization", report.utilization},
      {"transfer_fraction", report.transfer_fraction},
      {"samples_per_second", report.samples_per_second ? Json(*report.samples_per_second) : Json(nullptr)},
      {"closed_form", closed_form_json(report.closed_form)}};
  Json& ranks = json["ranks"] = Json::array();
  for (const RankId rank : ids<RankId>(report.ranks.size()))
    ranks.push_back(rank_json(rank, report.ranks[rank]));
  Json& warnings = json["warnings"] = Json::array();
  for (const Warning& warning : report.warnings)
    warnings.push_back({{"code", spelt(warning.code)}, {"message", warning.message}, {"hint", warning.hint}});
  return json;
}

double BubbleFormula::utilization() const { return ratio(micro_batches, slots(*this)); }
double BubbleFormula::bubble_fraction() const { return ratio(devices - 1, slots(*this)); }
double BubbleFormula::card() const { return ratio(devices, slots(*this)); }
double BubbleFormula::speed_up() const { return ratio(Wide{devices} * micro_batches, slots(*this)); }

}  // namespace pipeplan
