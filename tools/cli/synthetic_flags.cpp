#include "tools/cli/synthetic_flags.hpp"

#include <CLI/CLI.hpp>

#include "planner/memory.hpp"
#include "tools/cli/flags.hpp"

namespace pipeplan {
namespace {

constexpr std::int64_t most_stages = 4096;
constexpr std::int64_t most_ops = 100'000'000;

Result<void> in_range(const char* flag, std::int64_t value, std::int64_t most) {
  if (value >= 1 && value <= most) return {};
  return bad_usage(fmt::format("{} is {}, wanted 1 to {}", flag, value, most));
}

Result<void> check_total(const PerId<StageId, StageTimes>& times, std::int64_t micro_batches) {
  std::int64_t total = 0;
  for (const StageTimes& stage : times) {
    const std::int64_t time = (stage.per_micro_batch() + stage.optimizer).count();
    const auto whole = checked_product(time, micro_batches, largest_total_time.count() - total);
    if (!whole) return bad_usage("the times of all stages and micro-batches add up to more than 2^62 ns");
    total += *whole;
  }
  return {};
}

}  // namespace

void SyntheticFlags::declare(CLI::App& app) {
  const auto group = "synthetic (no model, no plan)";
  app.add_flag("--synthetic", wanted, "simulate stages of given times")->group(group);
  const auto add = [&](const char* flag, auto& value, const std::string& help) {
    options_.push_back(app.add_option(flag, value, help)->group(group)->capture_default_str());
  };
  add("--stages", stages, "stages, one per rank");
  add("--microbatches", micro_batches, "micro-batches per iteration");
  add("--schedule", schedule, "order of ops: " + word_choice<ScheduleKind>());
  add("--forward", forward, "forward of a micro-batch, as 24us or one per stage 5us,11us");
  add("--backward", backward, "whole backward; or give the two parts below");
  add("--backward-input", backward_input, "backward for the input");
  add("--backward-weight", backward_weight, "backward for the weights");
  add("--recompute", recompute, "forward that runs again before the backward, as --forward; 0ns: none");
  add("--optimizer", optimizer, "optimizer step of a stage");
  add("--latency", latency, "latency of every link");
  add("--bandwidth", bandwidth, "bandwidth of every link, as 50GB/s; infinite if not given");
  add("--boundary-bytes", boundary_bytes, "bytes per micro-batch between stages, as 4MiB");
  add("--activation-bytes", activation_bytes, "bytes that a stage keeps per micro-batch in flight");
  add("--transfers", transfers, "how transfers count: " + word_choice<TransferMode>());
}

std::string SyntheticFlags::first_given() const {
  for (const CLI::Option* option : options_)
    if (option->count() > 0) return option->get_name();
  return {};
}

Result<std::vector<Nanoseconds>> SyntheticFlags::times(const std::string& text, const char* flag) const {
  PIPEPLAN_TRY(parts, parse_list(text, flag));
  const auto count = static_cast<std::size_t>(stages);
  if (parts.size() != 1 && parts.size() != count)
    return bad_usage(fmt::format("{} has {} values, wanted one, or one for each of {} stages", flag,
                                 parts.size(), stages));
  std::vector<Nanoseconds> values;
  for (std::size_t i = 0; i < count; ++i) {
    PIPEPLAN_TRY(time, parse_time(parts[parts.size() == 1 ? 0 : i], flag));
    values.push_back(time);
  }
  return values;
}

Result<PerId<StageId, StageTimes>> SyntheticFlags::stage_times() const {
  if (!backward.empty() && !(backward_input.empty() && backward_weight.empty()))
    return bad_usage("--backward is given beside --backward-input or --backward-weight",
                     "give the whole backward, or its two parts");
  PIPEPLAN_TRY(f, times(forward, "--forward"));
  const bool split = backward.empty();
  const std::string zero = "0ns";
  PIPEPLAN_TRY(b, times(!split                   ? backward
                        : backward_input.empty() ? zero
                                                 : backward_input,
                        split ? "--backward-input" : "--backward"));
  PIPEPLAN_TRY(w, times(!split || backward_weight.empty() ? zero : backward_weight, "--backward-weight"));
  PIPEPLAN_TRY(again, times(recompute, "--recompute"));
  PIPEPLAN_TRY(step, times(optimizer, "--optimizer"));
  PerId<StageId, StageTimes> all;
  for (std::size_t i = 0; i < f.size(); ++i)
    all.push_back({.forward = f[i],
                   .backward_input = b[i],
                   .backward_weight = w[i],
                   .optimizer = step[i],
                   .recompute = again[i]});
  return all;
}

Result<BoundaryCosts> SyntheticFlags::boundary() const {
  BoundaryCosts costs;
  PIPEPLAN_TRY(delay, parse_time(latency, "--latency"));
  PIPEPLAN_TRY(bytes, parse_bytes(boundary_bytes, "--boundary-bytes"));
  costs.link.latency = delay;
  costs.bytes = bytes;
  if (!bandwidth.empty()) {
    PIPEPLAN_TRY(speed, parse_bandwidth(bandwidth, "--bandwidth"));
    costs.link.bandwidth = speed;
  }
  return costs;
}

Result<SyntheticFlags::Pipeline> SyntheticFlags::read() const {
  PIPEPLAN_CHECK(in_range("--stages", stages, most_stages));
  PIPEPLAN_CHECK(in_range("--microbatches", micro_batches, most_ops / stages));
  PIPEPLAN_TRY(kind, parse_word<ScheduleKind>(schedule, "--schedule"));
  PIPEPLAN_TRY(mode, parse_word<TransferMode>(transfers, "--transfers"));
  PIPEPLAN_TRY(stage_costs, stage_times());
  PIPEPLAN_TRY(between, boundary());
  PIPEPLAN_TRY(activation, parse_bytes(activation_bytes, "--activation-bytes"));
  PIPEPLAN_CHECK(check_total(stage_costs, micro_batches));
  Pipeline pipeline{.schedule = make_schedule(kind, stages, micro_batches), .costs = {}};
  pipeline.costs.times = stage_costs;
  pipeline.costs.transfers = mode;
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    StageMemory memory;
    memory.activation_per_micro_batch = activation;
    pipeline.costs.memory.push_back(memory);
    if (stage + 1 == stages) break;
    between.receive_buffers = receive_buffers(kind, stages, micro_batches, stage);
    pipeline.costs.boundaries.push_back(between);
  }
  return pipeline;
}

}  // namespace pipeplan
