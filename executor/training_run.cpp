#include "executor/training_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "executor/measurements.hpp"
#include "executor/training_digest.hpp"

namespace pipeplan {
namespace {

using Tensors = std::vector<std::vector<float>>;

// Losses by micro-batch over a copy's replicas: each is the mean of the shares' means.
std::vector<float> mean_over_replicas(const Tensors& shares) {
  std::vector<float> means;
  for (std::size_t k = 0; k < shares.front().size(); ++k) {
    double sum = 0;
    for (const auto& share : shares) sum += static_cast<double>(share[k]);
    means.push_back(static_cast<float>(sum / static_cast<double>(shares.size())));
  }
  return means;
}

std::vector<std::size_t> sizes_of(const Tensors& tensors) {
  std::vector<std::size_t> sizes;
  for (const auto& tensor : tensors) sizes.push_back(tensor.size());
  return sizes;
}

bool same_shape(const StageValues& a, const StageValues& b) {
  return sizes_of(a.parameters) == sizes_of(b.parameters) &&
         sizes_of(a.optimizer_state) == sizes_of(b.optimizer_state);
}

class TrainingRun {
 public:
  TrainingRun(TrainingCrew crew, std::string digest, const ExecuteOptions& options)
      : options_(options), digest_(std::move(digest)) {
    PerId<WorkerId, std::unique_ptr<Device>> devices;
    for (auto& device : crew.devices) {
      devices_.push_back(device.get());
      devices.push_back(std::move(device));
    }
    engine_.emplace(std::move(crew.program), std::move(devices), std::move(crew.boundary_bytes));
    execution_.notes = std::move(crew.notes);
  }

  Result<Execution> run() {
    PIPEPLAN_CHECK(resume());
    for (std::int64_t number = first_; number < total(); ++number) {
      PIPEPLAN_CHECK(number < options_.warm_ups ? warm_up(number) : measure(number));
      PIPEPLAN_CHECK(checkpoint(number + 1));
      if (options_.progress) options_.progress(number + 1, total());
    }
    measurements_.move_into(execution_);
    return std::move(execution_);
  }

 private:
  [[nodiscard]] std::int64_t total() const { return options_.warm_ups + options_.iterations; }
  [[nodiscard]] const Program& program() const { return engine_->program(); }
  [[nodiscard]] StageId last_stage() const { return program().homes.end_id().previous(); }
  // All peers of a stage hold the same values; the first speaks for them.
  [[nodiscard]] TrainingDevice& first_of(StageId stage) const {
    return *devices_[program().peers[stage].front()];
  }

  Result<void> resume() {
    if (!options_.checkpoints) return {};
    PIPEPLAN_TRY(checkpoint, newest_checkpoint(*options_.checkpoints, digest_));
    if (!checkpoint) return {};
    if (checkpoint->stages.size() != program().homes.size())
      return bad_input(
          options_.checkpoints->folder,
          fmt::format("has {} stages, wanted {}", checkpoint->stages.size(), program().homes.size()));
    for (const StageId stage : ids<StageId>(program().homes.size()))
      PIPEPLAN_CHECK(restore(stage, checkpoint->stages[stage]));
    first_ = checkpoint->iterations;
    execution_.resumed_at = first_;
    execution_.mean_losses = std::move(checkpoint->mean_losses);
    return {};
  }

  Result<void> restore(StageId stage, const StageValues& values) {
    PIPEPLAN_TRY(held, first_of(stage).values(stage));
    if (!same_shape(held, values))
      return bad_input(options_.checkpoints->folder,
                       fmt::format("has other layers in stage {} than the network", stage.value));
    for (const WorkerId peer : program().peers[stage])
      PIPEPLAN_CHECK(devices_[peer]->set_values(stage, values));
    return {};
  }

  Result<IterationResult> iterate(std::int64_t number) {
    PIPEPLAN_TRY(result, engine_->run_iteration(number));
    losses_ = gather_losses();
    const double sum = std::accumulate(losses_.begin(), losses_.end(), 0.0);
    execution_.mean_losses.push_back(sum / static_cast<double>(losses_.size()));
    return std::move(result);
  }

  // Copy by copy, in micro-batch order.
  [[nodiscard]] std::vector<float> gather_losses() const {
    std::vector<Tensors> copies;
    for (const WorkerId peer : program().peers[last_stage()]) {
      if (program().workers[peer].replica == 0) copies.emplace_back();
      copies.back().push_back(devices_[peer]->losses());
    }
    std::vector<float> losses;
    for (const Tensors& copy : copies) {
      const std::vector<float> means = mean_over_replicas(copy);
      losses.insert(losses.end(), means.begin(), means.end());
    }
    return losses;
  }

  // A resumed run has not seen the first losses, so it keeps no record.
  Result<void> warm_up(std::int64_t number) {
    const std::int64_t recorded = options_.recorded.value_or(options_.warm_ups);
    const bool recording = first_ == 0 && number < recorded;
    const bool last = number + 1 == recorded;
    if (recording && last) keep_gradients(true);
    PIPEPLAN_CHECK(iterate(number));
    if (!recording) return {};
    warm_up_losses_.insert(warm_up_losses_.end(), losses_.begin(), losses_.end());
    if (!last) return {};
    PIPEPLAN_CHECK(record());
    keep_gradients(false);
    return {};
  }

  void keep_gradients(bool keep) {
    for (const StageId stage : ids<StageId>(program().homes.size())) first_of(stage).keep_gradients(keep);
  }

  Result<void> record() {
    TrainingRecord record{.losses = std::move(warm_up_losses_), .gradients = {}, .parameters = {}};
    for (const StageId stage : ids<StageId>(program().homes.size())) {
      for (auto& values : first_of(stage).gradients(stage)) record.gradients.push_back(std::move(values));
      PIPEPLAN_TRY(held, first_of(stage).values(stage));
      for (auto& values : held.parameters) record.parameters.push_back(std::move(values));
    }
    execution_.training = std::move(record);
    return {};
  }

  Result<void> measure(std::int64_t number) {
    PIPEPLAN_TRY(result, iterate(number));
    measurements_.add(std::move(result));
    return {};
  }

  Result<void> checkpoint(std::int64_t done) {
    if (!options_.checkpoints || options_.checkpoints->every < 1 || done % options_.checkpoints->every != 0)
      return {};
    Checkpoint checkpoint{
        .training_digest = digest_, .iterations = done, .mean_losses = execution_.mean_losses, .stages = {}};
    for (const StageId stage : ids<StageId>(program().homes.size())) {
      PIPEPLAN_TRY(values, first_of(stage).values(stage));
      checkpoint.stages.push_back(std::move(values));
    }
    return save_checkpoint(checkpoint, *options_.checkpoints);
  }

  const ExecuteOptions& options_;
  std::string digest_;
  PerId<WorkerId, TrainingDevice*> devices_;  // the engine owns them
  std::optional<Engine> engine_;
  std::int64_t first_ = 0;  // iteration
  std::vector<float> losses_, warm_up_losses_;
  Measurements measurements_;
  Execution execution_;
};

}  // namespace

Result<Execution> run_training(TrainingCrew crew, const ModelGraph& model, const Schedule& schedule,
                               const Plan& plan, const ExecuteOptions& options) {
  return TrainingRun(std::move(crew), training_digest(model, schedule, plan, options), options).run();
}

}  // namespace pipeplan
