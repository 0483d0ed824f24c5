#include "executor/gpu/gpu_executor.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "executor/command_time.hpp"
#include "executor/gpu/gpu_worker.hpp"
#include "executor/training_run.hpp"

namespace pipeplan {
namespace {

std::string granted_text(const std::string& worker, const GpuPart& part) {
  const std::string where = fmt::format("{}: GPU {} ({})", worker, part.device, part.device_name);
  switch (part.kind) {
    case PartitionKind::device: return fmt::format("{}, all {} SMs", where, part.sm_count);
    case PartitionKind::green:
      return fmt::format("{}, green context of {} of {} SMs", where, part.sm_count, part.device_sm_count);
    case PartitionKind::streams: return fmt::format("{}, plain stream", where);
  }
  return where;
}

// The queue that a worker asks for.
PartRequest part_request(const Program& program, WorkerId worker, const TrainingRequest& request) {
  const Worker& it = program.workers[worker];
  const StagePlan& planned = request.plan.stages[stages_of_rank(program, it.rank).front()];
  const auto place = static_cast<std::size_t>(it.copy * it.replica_count + it.replica);
  const bool own_gpu = request.options.partitions == PartitionKind::device;
  return {.name = worker_name(program, worker, request.plan),
          .device = own_gpu ? planned.devices.at(place).value : 0};
}

// A plan set up on a backend's queues. The queues outlive what is made on them.
class GpuRun {
 public:
  GpuRun(const TrainingRequest& request, GpuBackend& backend) : request_(request), backend_(backend) {}

  Result<Execution> run() {
    PIPEPLAN_TRY(program, compile(request_.schedule, replication(request_.plan)));
    program_ = std::move(program);
    PIPEPLAN_CHECK(open_queues());
    PIPEPLAN_CHECK(make_events());
    TrainingCrew crew{.boundary_bytes = boundary_bytes(request_.costs), .notes = notes()};
    PIPEPLAN_TRY(devices, make_devices());
    crew.devices = std::move(devices);
    crew.program = std::move(program_);
    return run_training(std::move(crew), request_.model, request_.schedule, request_.plan, request_.options);
  }

 private:
  [[nodiscard]] auto workers() const { return ids<WorkerId>(program_.workers.size()); }

  Result<void> open_queues() {
    std::vector<PartRequest> requests;
    for (const WorkerId worker : workers()) requests.push_back(part_request(program_, worker, request_));
    PIPEPLAN_CHECK(check_devices(requests));
    PIPEPLAN_TRY(queues, backend_.open(request_.options.partitions, requests));
    queues_ = std::move(queues);
    rig_.emplace(program_);
    for (const auto& queue : queues_) rig_->queues.push_back(queue.get());
    return {};
  }

  Result<void> check_devices(const std::vector<PartRequest>& requests) {
    PIPEPLAN_TRY(devices, backend_.devices());
    const auto count = static_cast<std::int64_t>(devices.size());
    for (const PartRequest& request : requests)
      if (request.device >= count)
        return fail(ErrorCode::unavailable, request.name,
                    fmt::format("is planned on device {}, this machine has {} GPUs", request.device, count),
                    "--partitions green puts all stages on GPU 0");
    return {};
  }

  Result<void> make_events() {
    PIPEPLAN_TRY(clock, GpuClock::make(rig_->queues.values()));
    rig_->clock = std::move(clock);
    if (request_.options.emulate_links) {
      PIPEPLAN_TRY(links, EmulatedLinks::open(program_, request_.costs, rig_->queues));
      rig_->links = std::move(links);
    }
    for (const WorkerId worker : workers()) PIPEPLAN_CHECK(make_worker_events(worker));
    return {};
  }

  Result<void> make_worker_events(WorkerId worker) {
    GpuQueue& queue = *rig_->queues[worker];
    PIPEPLAN_TRY(handover, queue.make_event(EventUse::ordering));
    rig_->handovers.push_back(std::move(handover));
    PIPEPLAN_TRY(courier, make_courier(worker));
    rig_->couriers.push_back(std::move(courier));
    for (const CommandId id : program_.order[worker]) {
      GpuQueue* recorder = rig_->links.recorder(id);
      PIPEPLAN_CHECK(rig_->events.make(id, recorder != nullptr ? *recorder : queue));
    }
    return {};
  }

  Result<std::unique_ptr<GpuQueue>> make_courier(WorkerId worker) {
    const Worker& it = program_.workers[worker];
    const bool has_peers = it.replica_count * request_.plan.data_parallel > 1;
    if (!has_peers || request_.options.partitions != PartitionKind::device) return nullptr;
    return rig_->queues[worker]->make_sibling(worker_name(program_, worker, request_.plan) + ", courier");
  }

  Result<PerId<WorkerId, std::unique_ptr<TrainingDevice>>> make_devices() {
    const OrderDemand demand = order_demand(request_.schedule);
    PerId<WorkerId, std::unique_ptr<TrainingDevice>> devices;
    std::vector<GpuWorker*> made;
    for (const WorkerId worker : workers()) {
      PIPEPLAN_TRY(layers, runnable_layers(request_.model, *rig_->queues[worker]));
      WorkerSpec spec = worker_spec(program_, worker, demand, request_, layers);
      PIPEPLAN_TRY(device, GpuWorker::make(std::move(spec), std::move(layers), *rig_));
      made.push_back(device.get());
      devices.push_back(std::move(device));
    }
    const PipelineCosts* links = request_.options.emulate_links ? &request_.costs : nullptr;
    for (GpuWorker* worker : made) PIPEPLAN_CHECK(worker->join_peers(links));
    return devices;
  }

  [[nodiscard]] std::vector<std::string> notes() const {
    std::vector<std::string> notes;
    for (const WorkerId worker : workers())
      notes.push_back(
          granted_text(worker_name(program_, worker, request_.plan), rig_->queues[worker]->part()));
    if (request_.options.partitions == PartitionKind::streams && notes.size() > 1)
      notes.push_back(
          "plain streams: stages share all SMs and take them from each other, so that their times "
          "are not those of the profile");
    return notes;
  }

  TrainingRequest request_;
  GpuBackend& backend_;
  Program program_;
  std::vector<std::unique_ptr<GpuQueue>> queues_;
  std::optional<GpuRig> rig_;
};

}  // namespace

Result<Execution> execute_on_gpu(const ModelGraph& model, const Schedule& schedule, const Plan& plan,
                                 const PipelineCosts& costs, const ExecuteOptions& options,
                                 GpuBackend& backend) {
  return GpuRun({model, schedule, plan, costs, options}, backend).run();
}

}  // namespace pipeplan
