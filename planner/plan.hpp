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
#include "models/layers/optimizer.hpp"
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

// When recomputed layers run forward again: fused into the backward, or in ops of their own (R) that need not
// wait for the gradient.
enum class RecomputeMode { fused, early };

constexpr auto spellings(RecomputeMode) {
  using enum RecomputeMode;
  return std::to_array<Spelling<RecomputeMode>>({{fused, "fused"}, {early, "early"}});
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
  // One for each replica of each copy of the pipeline, copy by copy: replicas * data_parallel of them. All
  // stages of a rank have the same.
  std::vector<DeviceId> devices = {DeviceId{0}};
  std::int64_t replicas = 1;            // each takes an equal share of every micro-batch
  std::vector<LayerId> recompute = {};  // ascending: layers whose activations are computed again

  [[nodiscard]] DeviceId device() const { return devices.front(); }
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
  std::int64_t data_parallel = 1;  // copies of the whole pipeline
  RecomputeMode recompute_mode = RecomputeMode::fused;
  PerId<LayerId, std::string> layer_names;
  PerId<StageId, StagePlan> stages;  // in the order of the layers; several may share a rank
  Objective objective;
  Prediction prediction;
  std::string algorithm = "chain-dp";

  [[nodiscard]] std::int64_t global_batch() const {
    return micro_batch_size * micro_batch_count * data_parallel;
  }
  [[nodiscard]] std::int64_t stage_count() const { return static_cast<std::int64_t>(stages.size()); }
  [[nodiscard]] std::int64_t rank_count() const;      // largest rank + 1
  [[nodiscard]] std::int64_t virtual_stages() const;  // stages per rank
  friend bool operator==(const Plan&, const Plan&) = default;
};

Json to_json(const Plan& plan);
// Checks everything that can be checked without a profile: every layer exactly once, in order, no empty
// stage, equally many stages on every rank, devices that exist and are used once, replicas that divide the
// micro-batch, counts that multiply to the global batch. What this version cannot do (tensor parallelism) is
// refused by name.
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
