#pragma once

// A plan: which layers form which stage, on which devices, and the schedule, micro-batches and machine it is
// meant for. The document is pipeplan.plan/1; it carries its cluster whole.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/base/json_file.hpp"
#include "models/base/spelling.hpp"
#include "models/cluster.hpp"
#include "profiler/profile.hpp"

namespace pipeplan {

enum class ScheduleKind { naive, gpipe, one_f_one_b };

constexpr auto spellings(ScheduleKind) {
  using enum ScheduleKind;
  return std::to_array<Spelling<ScheduleKind>>({{naive, "naive"}, {gpipe, "gpipe"}, {one_f_one_b, "1f1b"}});
}

enum class TransferMode {
  ignored,      // free
  uncontended,  // latency + bytes / bandwidth, links never busy
  overlapped,   // as uncontended, and each direction of a link carries one transfer at a time
};

constexpr auto spellings(TransferMode) {
  using enum TransferMode;
  return std::to_array<Spelling<TransferMode>>(
      {{ignored, "ignored"}, {uncontended, "uncontended"}, {overlapped, "overlapped"}});
}

// Bytes per parameter byte, as weight + gradient + state: none 1 + 0 + 0, sgd 1 + 1 + 0, momentum 1 + 1 + 1,
// adam 1 + 1 + 2.
enum class OptimizerRule { none, sgd, momentum, adam };

constexpr auto spellings(OptimizerRule) {
  using enum OptimizerRule;
  return std::to_array<Spelling<OptimizerRule>>(
      {{none, "none"}, {sgd, "sgd"}, {momentum, "momentum"}, {adam, "adam"}});
}

// How many bytes the training state takes, in multiples of the weights' bytes.
struct StateRule {
  OptimizerRule optimizer = OptimizerRule::sgd;
  // --state-bytes-per-parameter-byte: weights, gradients and state together, as a multiple; overrides the
  // optimizer's.
  std::optional<double> total_factor = {};
  friend bool operator==(const StateRule&, const StateRule&) = default;
};

struct StagePlan {
  LayerId first;  // inclusive
  LayerId last;   // inclusive
  RankId rank;
  DeviceId device;
  friend bool operator==(const StagePlan&, const StagePlan&) = default;
};

// What was minimised, what was reached, what was proved.
struct Objective {
  std::string name = "slowest-stage";
  Nanoseconds value{};
  Nanoseconds lower_bound{};    // proved for contiguous stages in the profile's layer order
  Nanoseconds trivial_bound{};  // max(sum of times / ranks, largest layer)
  // (value - lower bound) / lower bound; 1 where only the bound is 0.
  [[nodiscard]] double gap_fraction() const;
  [[nodiscard]] bool optimal() const { return value == lower_bound; }
  friend bool operator==(const Objective&, const Objective&) = default;
};

// What the planner expects of each stage; the simulator refines it.
struct Prediction {
  std::optional<Nanoseconds> iteration = {};   // filled by tools, from the simulator
  std::optional<double> bubble_fraction = {};  // likewise
  std::vector<Bytes> peak_memory;              // per stage
  std::vector<Bytes> transfer;                 // per boundary, forward; the gradient has the same
  friend bool operator==(const Prediction&, const Prediction&) = default;
};

struct Plan {
  std::string model;
  std::string profile_digest;
  Cluster cluster;
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  TransferMode transfers = TransferMode::overlapped;
  StateRule state;
  std::int64_t micro_batch_size = 1;
  std::int64_t micro_batch_count = 1;
  PerId<LayerId, std::string> layer_names;
  PerId<StageId, StagePlan> stages;
  Objective objective;
  Prediction prediction;
  std::string algorithm = "chain-dp";

  [[nodiscard]] std::int64_t global_batch() const { return micro_batch_size * micro_batch_count; }
  [[nodiscard]] std::int64_t stage_count() const { return static_cast<std::int64_t>(stages.size()); }
  friend bool operator==(const Plan&, const Plan&) = default;
};

Json to_json(const Plan& plan);
// Checks everything that can be checked without a profile: every layer exactly once, in order, no empty
// stage, devices that exist, counts that multiply to the global batch. What this version cannot do (replicas,
// tensor parallelism, virtual stages, recomputation) is refused by name.
Result<Plan> plan_from_json(const Json& json, const std::string& source);
Result<Plan> read_plan_file(const std::string& path);

// Whether `plan` may be used with `profile`: made for it (its digest; `allowed` lets a stale plan pass, if
// its layers are the profile's), within the memory of its devices, and worth what it says. The last two are
// check_failed.
enum class StaleProfile { refused, allowed };
Result<void> check_plan_against(const Plan& plan, const Profile& profile,
                                StaleProfile stale = StaleProfile::refused,
                                Extrapolation extrapolation = Extrapolation::refused);

// Layer counts per stage [3, 3, 8, 27], and cumulative bounds [0, 3, 6, 14, 41].
std::vector<std::int64_t> stage_sizes(const Plan& plan);
std::vector<std::int64_t> stage_bounds(const Plan& plan);

}  // namespace pipeplan
