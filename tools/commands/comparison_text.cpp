#include "tools/commands/comparison_text.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "profiler/statistics.hpp"
#include "tools/cli/table.hpp"

namespace pipeplan {
namespace {

std::string signed_percent(double fraction) { return fmt::format("{:+.1f} %", 100 * fraction); }

const char* op_words(OpKind kind) {
  switch (kind) {
    case OpKind::forward: return "forward";
    case OpKind::backward: return "backward";
    case OpKind::backward_input: return "input gradient";
    case OpKind::backward_weight: return "weight gradient";
    case OpKind::recompute: return "recomputation";
  }
  return "";
}

std::string op_name(const OpComparison& op) {
  return fmt::format("stage {} {} ({})", op.stage.value, op_words(op.kind), spelt(op.kind));
}

std::string comparison_table(const Comparison& comparison) {
  Table table({{"quantity", Table::Align::left}, {"predicted"}, {"measured"}, {"error"}});
  const auto add_time = [&](const std::string& what, const Compared& it) {
    table.add({what, display(it.predicted), display(it.measured), signed_percent(it.error_fraction())});
  };
  add_time("iteration (median)", comparison.iteration);
  const double predicted = comparison.predicted_bubble_fraction,
               measured = comparison.measured_bubble_fraction;
  table.add({"bubble fraction", fmt::format("{:.1f} %", 100 * predicted),
             fmt::format("{:.1f} %", 100 * measured),
             fmt::format("{:+.1f} points", 100 * (predicted - measured))});
  for (const OpComparison& op : comparison.ops) add_time(op_name(op), op.median);
  for (const RankId rank : ids<RankId>(comparison.memory.size())) {
    const RankComparison& it = comparison.memory[rank];
    table.add({fmt::format("rank {} peak memory", rank.value),
               fmt::format("{} B", it.predicted.total().value),
               fmt::format("{} B", it.measured.total().value), it.equal() ? "equal" : "differs"});
  }
  return table.text();
}

std::string worst_line(const Comparison& comparison) {
  if (comparison.worst.empty()) return {};
  const WorstOp& worst = comparison.worst.front();
  return fmt::format("worst op         {}: predicted {}, measured {}; order inversions {}\n",
                     op_text(worst.op), display(worst.duration.predicted), display(worst.duration.measured),
                     comparison.order_inversions);
}

std::string spread_line(const Execution& execution) {
  const auto& samples = execution.iterations;
  return fmt::format("iterations       {} measured, median {}, P10 {}, P90 {}\n", samples.size(),
                     display(median(samples)), display(quantile(samples, 0.1)),
                     display(quantile(samples, 0.9)));
}

std::string equivalence_line(const Equivalence& equivalence, const Closeness& wanted) {
  if (!equivalence.equal)
    return fmt::format("equivalence      differs from the single-stage run: {}\n", equivalence.difference);
  const char* what = wanted.parameters ? "losses, gradients and parameters" : "losses and gradients";
  if (wanted.to_the_last_bit())
    return fmt::format("equivalence      {} equal the single-stage run to the last bit\n", what);
  return fmt::format(
      "equivalence      {} of the first iteration within {:.1e} of the single-stage run (allowed {:.0e})\n",
      what, equivalence.largest_distance_fraction, wanted.largest_distance_fraction);
}

std::string training_lines(const RunOutcome& outcome) {
  const auto& losses = outcome.execution.mean_losses;
  std::string text;
  if (!losses.empty())
    text += fmt::format("training         mean loss {:.4f} at first, {:.4f} at last\n", losses.front(),
                        losses.back());
  if (outcome.execution.resumed_at)
    text += fmt::format("resumed          after iteration {}\n", *outcome.execution.resumed_at);
  if (outcome.equivalence) text += equivalence_line(*outcome.equivalence, outcome.wanted_closeness);
  return text;
}

std::string verdict_line(const RunOutcome& outcome) {
  if (!outcome.tolerance) return {};
  std::string why;
  if (outcome.verdict() == Verdict::not_judged)
    why = !outcome.comparison         ? ": nothing was left to run"
          : outcome.shares_cores      ? ": stages share cores"
          : !outcome.profile_is_clean ? ": the machine was busy when the profile was measured"
                                      : ": the machine is busy, times cannot be believed";
  return fmt::format("verdict          {} of {:.0f} %{}\n", spelt(outcome.verdict()),
                     100 * *outcome.tolerance, why);
}

}  // namespace

Verdict RunOutcome::verdict() const {
  if (!tolerance || !comparison || shares_cores || !profile_is_clean || !execution.load.clean())
    return Verdict::not_judged;
  const bool within = std::abs(comparison->iteration.error_fraction()) <= *tolerance;
  return within ? Verdict::within_tolerance : Verdict::outside_tolerance;
}

bool RunOutcome::failed() const {
  return verdict() == Verdict::outside_tolerance || (equivalence && !equivalence->equal);
}

std::string run_text(const RunOutcome& outcome) {
  if (!outcome.comparison)
    return fmt::format("nothing left to run: the newest checkpoint is of iteration {}\n{}",
                       outcome.execution.mean_losses.size(), training_lines(outcome));
  std::string text = comparison_table(*outcome.comparison) + "\n" + spread_line(outcome.execution) +
                     worst_line(*outcome.comparison) + training_lines(outcome);
  if (outcome.execution.load.wall > Nanoseconds::zero())
    text += fmt::format("load guard       {}\n", outcome.execution.load.sentence());
  return text + verdict_line(outcome);
}

Json run_json(const RunOutcome& outcome) {
  Json json = outcome.comparison ? to_json(*outcome.comparison)
                                 : Json{{"schema", "pipeplan.comparison/1"}, {"iteration", nullptr}};
  json["iterations_ns"] = Json::array();
  for (const Nanoseconds iteration : outcome.execution.iterations)
    json["iterations_ns"].push_back(iteration.count());
  json["mean_losses"] = outcome.execution.mean_losses;
  json["resumed_at"] = nullptr;
  if (outcome.execution.resumed_at) json["resumed_at"] = *outcome.execution.resumed_at;
  json["notes"] = outcome.execution.notes;
  json["equivalence"] = nullptr;
  if (outcome.equivalence)
    json["equivalence"] = {{"equal", outcome.equivalence->equal},
                           {"largest_distance_fraction", outcome.equivalence->largest_distance_fraction},
                           {"allowed_distance_fraction", outcome.wanted_closeness.largest_distance_fraction},
                           {"difference", outcome.equivalence->difference}};
  const LoadVerdict& load = outcome.execution.load;
  json["load_guard"] = {{"clean", load.clean()}, {"steal_fraction", load.steal_fraction()}};
  json["tolerance_fraction"] = nullptr;
  if (outcome.tolerance) json["tolerance_fraction"] = *outcome.tolerance;
  json["verdict"] = spelt(outcome.verdict());
  return json;
}

}  // namespace pipeplan
