// CPU time of chain_dp against the size of the chain, its kind of costs and limits, and, where that is
// bearable, against the obvious dynamic program over (stage, end, first), which finds the value alone and
// knows no tie-breaks.

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <limits>
#include <random>
#include <string>

#include "planner/chain_dp.hpp"
#include "planner/even_split.hpp"
#include "planner/memory.hpp"

using namespace pipeplan;

namespace {

// Windows that the plain program may look at. With memory it walks each window for its workspace.
constexpr std::int64_t largest_plain_work = 1'200'000'000;
constexpr std::int64_t largest_plain_layers_with_memory = 1024;

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

std::vector<std::int64_t> prefix_sums(std::mt19937_64& engine, std::size_t layers, std::int64_t least,
                                      std::int64_t most) {
  std::vector<std::int64_t> sums{0};
  const auto width = static_cast<std::uint64_t>(most - least) + 1;
  for (std::size_t i = 0; i < layers; ++i)
    sums.push_back(sums.back() + least + static_cast<std::int64_t>(engine() % width));
  return sums;
}

std::vector<std::int64_t> values(std::mt19937_64& engine, std::size_t count, std::int64_t least,
                                 std::int64_t most) {
  std::vector<std::int64_t> sums = prefix_sums(engine, count, least, most);
  for (std::size_t i = count; i > 0; --i) sums[i] -= sums[i - 1];
  sums.erase(sums.begin());
  return sums;
}

// Turns every layer into one that is recomputed and keeps its input, the cut before it.
void recompute_all(CostTable& table) {
  table.rerun = table.forward;
  table.rerun_activation = table.activation;
  table.activation.assign(table.activation.size(), 0);
  for (std::size_t i = 1; i < table.entering.size(); ++i) table.entering[i] = table.cut_bytes[i];
}

// `spread` 0: all layers alike; otherwise uniformly random up to 1 + spread times the least.
CostTable make_table(std::size_t layers, std::int64_t spread) {
  std::mt19937_64 engine(1);
  CostTable table;
  table.layer_count = static_cast<std::int64_t>(layers);
  const std::int64_t us = 1000, kib = 1024;
  table.forward = prefix_sums(engine, layers, 100 * us, 100 * us * (1 + spread));
  table.backward_input = prefix_sums(engine, layers, 100 * us, 100 * us * (1 + spread));
  table.backward_weight = prefix_sums(engine, layers, 100 * us, 100 * us * (1 + spread));
  table.optimizer.assign(layers + 1, 0);
  table.activation = prefix_sums(engine, layers, 100 * kib, 100 * kib * (1 + spread));
  table.parameter = prefix_sums(engine, layers, 100 * kib, 100 * kib * (1 + spread));
  table.workspace = values(engine, layers, kib, kib * (1 + spread));
  table.cut_bytes = values(engine, layers + 1, 10 * kib, 10 * kib * (1 + spread));
  table.cut_bytes.front() = table.cut_bytes.back() = 0;
  table.rerun = table.rerun_activation = table.deferred = std::vector<std::int64_t>(layers + 1);
  table.entering.assign(layers, 0);
  return table;
}

enum class Limits { none, memory, links, memory_and_links, unequal_devices };

SplitProblem make_problem(const CostTable& table, std::int64_t stages, Limits limits) {
  SplitProblem problem{&table,
                       stages,
                       4 * stages,
                       ScheduleKind::one_f_one_b,
                       TransferMode::overlapped,
                       StateRule{OptimizerRule::adam, {}},
                       {},
                       {}};
  problem.devices.resize(static_cast<std::size_t>(stages));
  problem.links.resize(static_cast<std::size_t>(stages - 1));
  if (limits == Limits::links || limits == Limits::memory_and_links)
    for (Link& link : problem.links)  // the dearer half of the cuts takes longer than an average stage
      link.bandwidth = BytesPerSecond{static_cast<std::int64_t>(
          25.0 * 1024 * 1e9 / (static_cast<double>(table.total_time()) / static_cast<double>(stages)))};
  if (limits == Limits::unequal_devices)
    for (std::size_t i = 0; i < problem.devices.size(); ++i)
      problem.devices[i].speed_factor = 1.0 + 0.1 * static_cast<double>(i % 7);
  if (limits == Limits::memory || limits == Limits::memory_and_links || limits == Limits::unequal_devices) {
    const Bytes memory{smallest_memory(problem).memory.value / 100 * 103};
    for (DeviceType& device : problem.devices) device.memory = memory;
  }
  return problem;
}

// Whether [first, end) as `stage` fits, and its time with the link behind it.
std::int64_t plain_time(const SplitProblem& problem, std::int64_t stage, std::int64_t first,
                        std::int64_t end) {
  constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();
  const CostTable& table = *problem.table;
  const auto at = static_cast<std::size_t>(stage);
  const DeviceType& device = problem.devices[at];
  if (device.memory) {
    const StageMemory memory = stage_memory(table, first, end, stage, problem.stages, problem.schedule,
                                            problem.micro_batch_count, problem.state, device);
    const std::int64_t held = in_flight(problem.schedule, problem.stages, problem.micro_batch_count, stage);
    if (peak_memory(memory, held) > *device.memory) return never;
  }
  const std::int64_t time = table.stage_time(first, end, Ratio(device.speed_factor));
  if (stage + 1 == problem.stages) return time;
  return std::max(
      time, link_busy_time(problem.links[at], Bytes{table.cut_bytes[static_cast<std::size_t>(end)]}).count());
}

std::int64_t plain_chain_dp(const SplitProblem& problem) {
  const std::int64_t layers = problem.table->layer_count;
  std::vector<std::int64_t> best(static_cast<std::size_t>(layers) + 1,
                                 std::numeric_limits<std::int64_t>::max());
  best[0] = 0;
  for (std::int64_t stage = 0; stage < problem.stages; ++stage) {
    std::vector<std::int64_t> next(best.size(), std::numeric_limits<std::int64_t>::max());
    for (std::int64_t end = stage + 1; end <= layers - (problem.stages - 1 - stage); ++end)
      for (std::int64_t first = stage; first < end; ++first) {
        const std::int64_t before = best[static_cast<std::size_t>(first)];
        std::int64_t& value = next[static_cast<std::size_t>(end)];
        if (before < value) value = std::min(value, std::max(before, plain_time(problem, stage, first, end)));
      }
    best = std::move(next);
  }
  return best.back();
}

void print_row(const char* kind, const CostTable& table, std::int64_t stages, std::int64_t spread,
               Limits limits) {
  const SplitProblem problem = make_problem(table, stages, limits);
  const double start = cpu_seconds();
  const SplitAnswer answer = chain_dp(problem);
  const double seconds = cpu_seconds() - start;
  fmt::print("{:<28} {:>6} {:>6} {:>7} {:>11.4f}", kind, table.layer_count, stages, spread, seconds);
  const bool too_long = problem.devices.front().memory
                            ? table.layer_count > largest_plain_layers_with_memory
                            : stages * table.layer_count * table.layer_count > largest_plain_work;
  if (too_long) return fmt::print(" {:>11} {:>9}\n", "-", "-");
  const double plain_start = cpu_seconds();
  const std::int64_t value = plain_chain_dp(problem);
  const double plain = cpu_seconds() - plain_start;
  const bool equal = answer ? answer->slowest_ns == value : value == std::numeric_limits<std::int64_t>::max();
  fmt::print(" {:>11.4f} {:>9.0f}{}\n", plain, plain / std::max(seconds, 1e-6),
             equal ? "" : "  VALUES DIFFER");
}

void print_rows(std::size_t layers, std::int64_t stages) {
  for (const std::int64_t spread : {std::int64_t{0}, std::int64_t{9}, std::int64_t{999}}) {
    const CostTable table = make_table(layers, spread);
    print_row("no limits", table, stages, spread, Limits::none);
    print_row("memory", table, stages, spread, Limits::memory);
    print_row("links", table, stages, spread, Limits::links);
    print_row("memory and links", table, stages, spread, Limits::memory_and_links);
    print_row("memory, unequal devices", table, stages, spread, Limits::unequal_devices);
    CostTable recomputed = table;
    recompute_all(recomputed);
    print_row("memory, all recomputed", recomputed, stages, spread, Limits::memory);
  }
}

}  // namespace

int main() {
  fmt::print("{:<28} {:>6} {:>6} {:>7} {:>11} {:>11} {:>9}\n", "limits", "layers", "stages", "spread",
             "chain_dp s", "plain s", "ratio");
  print_rows(4096, 64);
  for (const std::size_t layers : {256u, 512u, 1024u, 2048u}) print_rows(layers, 16);
  for (const std::int64_t stages : {2, 8, 256, 1024}) print_rows(4096, stages);
  print_rows(10'000, 512);
}
