#include "executor/cpu/cpu_executor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "executor/cpu/cpu_device.hpp"
#include "executor/engine.hpp"
#include "models/layers/core_pin.hpp"
#include "simulator/check_schedule.hpp"

namespace pipeplan {
namespace {

using Layers = std::vector<std::unique_ptr<RunnableLayer<float>>>;

// A plan set up on cores: devices in an engine, and the queues between them.
class CpuRun {
 public:
  CpuRun(const ModelGraph& model, const Plan& plan, const PipelineCosts& costs, const ExecuteOptions& options)
      : model_(model), plan_(plan), costs_(costs), options_(options) {}

  Result<Execution> run(const Schedule& schedule) {
    PIPEPLAN_CHECK(check_cores());
    PIPEPLAN_CHECK(set_up(schedule));
    for (std::int64_t i = 0; i < options_.warm_ups; ++i) warm_up(i);
    for (std::int64_t i = 0; i < options_.iterations; ++i) measure(options_.warm_ups + i);
    choose_median();
    return std::move(execution_);
  }

 private:
  Result<void> check_cores() {
    cores_ = usable_cores();
    if (options_.share_cores || plan_.stage_count() <= static_cast<std::int64_t>(cores_.size())) return {};
    return fail(ErrorCode::unavailable, {},
                fmt::format("{} stages need {} cores, this process has {}", plan_.stage_count(),
                            plan_.stage_count(), cores_.size()),
                "plan with fewer stages, run --backend virtual, or --share-cores (times then mean nothing)");
  }

  Result<void> set_up(const Schedule& schedule) {
    PIPEPLAN_TRY(layers, runnable_layers(model_));
    layers_ = std::move(layers);
    PIPEPLAN_TRY(program, compile(schedule));
    const OrderDemand demand = order_demand(schedule);
    events_ = std::make_unique<EventBoard>(program.commands.size());
    inboxes_ = PerId<StageId, Inbox>(plan_.stages.size());
    PerId<RankId, std::unique_ptr<Device>> devices;
    for (const StageId stage : ids<StageId>(plan_.stages.size())) {
      PIPEPLAN_TRY(device, make_device(stage, demand));
      devices_.push_back(device.get());
      devices.push_back(std::move(device));
    }
    std::vector<Bytes> boundary_bytes;
    for (const BoundaryCosts& boundary : costs_.boundaries) boundary_bytes.push_back(boundary.bytes);
    engine_.emplace(std::move(program), std::move(devices), std::move(boundary_bytes));
    return {};
  }

  CpuStage describe(StageId stage, const OrderDemand& demand) const {
    const StagePlan& planned = plan_.stages[stage];
    const std::size_t s = stage.index();
    const auto count = static_cast<std::size_t>(planned.last.value - planned.first.value + 1);
    CpuStage described{
        .stage = stage, .stage_count = plan_.stage_count(), .first_layer = planned.first.value};
    described.layers = std::span(layers_).subspan(planned.first.index(), count);
    described.micro_batch_size = plan_.micro_batch_size;
    described.micro_batch_count = plan_.micro_batch_count;
    described.peak_in_flight = demand.peak_in_flight[id_of<RankId>(s)];
    described.activation_slots = s > 0 ? demand.forward_lead.at(s - 1) : 0;
    described.gradient_slots = s + 1 < plan_.stages.size() ? demand.backward_lead.at(s) : 0;
    described.first_spec = *model_.layers().front().runnable;
    described.last_spec = *model_.layers().back().runnable;
    described.seed = options_.seed;
    described.learning_rate = static_cast<float>(options_.learning_rate);
    if (!cores_.empty()) described.core = cores_[s % cores_.size()];
    return described;
  }

  Result<std::unique_ptr<CpuDevice>> make_device(StageId stage, const OrderDemand& demand) {
    CpuStage described = describe(stage, demand);
    const std::int64_t batch = described.micro_batch_size;
    const Bytes buffers = layer_bytes(*described.layers.front(), batch).input * described.activation_slots +
                          layer_bytes(*described.layers.back(), batch).output * described.gradient_slots;
    const MemoryUse layers = segment_memory(described.layers, batch, described.peak_in_flight);
    PIPEPLAN_TRY(arena, Arena::reserve(layers.total() + buffers, fmt::format("stage {}", stage.value)));
    return std::make_unique<CpuDevice>(std::move(described), std::move(arena), inboxes_, *events_);
  }

  IterationResult iterate(std::int64_t number) {
    events_->begin_iteration(number);
    IterationResult result = engine_->run_iteration(number);
    const std::vector<float>& losses = devices_.back()->losses();
    const double sum = std::accumulate(losses.begin(), losses.end(), 0.0);
    execution_.mean_losses.push_back(sum / static_cast<double>(losses.size()));
    if (options_.progress) options_.progress(number + 1, options_.warm_ups + options_.iterations);
    return result;
  }

  void warm_up(std::int64_t number) {
    const bool last = number + 1 == options_.warm_ups;
    for (CpuDevice* device : devices_) device->keep_gradients(last);
    iterate(number);
    const std::vector<float>& losses = devices_.back()->losses();
    execution_.training.losses.insert(execution_.training.losses.end(), losses.begin(), losses.end());
    if (!last) return;
    for (CpuDevice* device : devices_) {
      for (const auto& values : device->gradients()) execution_.training.gradients.push_back(values);
      for (auto& values : device->parameters()) execution_.training.parameters.push_back(std::move(values));
      device->keep_gradients(false);
    }
  }

  void measure(std::int64_t number) {
    IterationResult result = iterate(number);
    execution_.iterations.push_back(result.timeline.iteration);
    execution_.load.wall += result.load.wall;
    execution_.load.cpu += result.load.cpu;
    timelines_.push_back(std::move(result.timeline));
  }

  void choose_median() {
    if (timelines_.empty()) return;
    const auto middle = timelines_.begin() + static_cast<std::ptrdiff_t>((timelines_.size() - 1) / 2);
    std::ranges::nth_element(timelines_, middle, {}, &Timeline::iteration);
    execution_.timeline = std::move(*middle);
  }

  const ModelGraph& model_;
  const Plan& plan_;
  const PipelineCosts& costs_;
  const ExecuteOptions& options_;
  std::vector<int> cores_;
  Layers layers_;
  std::unique_ptr<EventBoard> events_;
  PerId<StageId, Inbox> inboxes_;
  std::optional<Engine> engine_;  // owns the devices, so it goes first
  std::vector<CpuDevice*> devices_;
  std::vector<Timeline> timelines_;
  Execution execution_;
};

}  // namespace

Result<Execution> execute_on_cpu(const ModelGraph& model, const Schedule& schedule, const Plan& plan,
                                 const PipelineCosts& costs, const ExecuteOptions& options) {
  return CpuRun(model, plan, costs, options).run(schedule);
}

}  // namespace pipeplan
