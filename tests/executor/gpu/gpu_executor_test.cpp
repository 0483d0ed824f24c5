// The GPU executor on a GPU that is none: real training by the CPU's layers, on a clock that only counts.

#include <doctest/doctest.h>

#include <numeric>

#include "tests/executor/gpu/gpu_runs.hpp"
#include "tests/executor/temporary_folder.hpp"

namespace pipeplan {
namespace {

using namespace pipeplan::test;

constexpr double bit_for_bit = 0;
constexpr double other_order_of_summation = 1e-5;

// Trains on the GPU, and holds times, memory and numbers against simulation and CPU.
Execution check_run(const ModelGraph& model, const Profile& profile, const Plan& plan,
                    const Schedule& schedule, const ExecuteOptions& options, double distance) {
  HostGpuOptions gpu_options = known_times();
  gpu_options.device_count = options.partitions == PartitionKind::device ? plan.cluster.device_count() : 1;
  HostGpu gpu(gpu_options);
  Execution execution = run_soundly(gpu, model, profile, plan, schedule, options);
  check_same(execution.timeline, simulated(profile, plan, schedule));
  check_training(execution, model, plan, options, distance);
  return execution;
}

void check_named_schedules(const ModelGraph& model, std::int64_t micro_batch_size) {
  const Profile profile = known_profile(model, {micro_batch_size});
  for (const auto& entry : spellings(ScheduleKind{})) {
    for (const std::int64_t stages : {1, 2, 3, 4}) {
      for (const std::int64_t micro_batches : {1, 2, 5}) {
        INFO(entry.text << ", " << stages << " stages, " << micro_batches << " micro-batches");
        const Plan plan = even_plan(profile, stages, micro_batches, entry.value);
        check_run(model, profile, plan, make_schedule(plan).value(), training_options(), bit_for_bit);
      }
    }
  }
}

// Four stages on two ranks in turn.
Plan chunked_plan(const Profile& profile, std::int64_t micro_batches) {
  Plan plan = even_plan(profile, 4, micro_batches, ScheduleKind::one_f_one_b);
  for (const StageId stage : ids<StageId>(4)) {
    plan.stages[stage].rank = RankId{stage.value % 2};
    plan.stages[stage].devices = {DeviceId{stage.value % 2}};
  }
  plan.cluster = linked_cluster(2);
  return plan;
}

// Replicas of each stage by `replicas`, all in `copies` of the pipeline.
Plan replicated_plan(const Profile& profile, std::int64_t micro_batches,
                     const std::vector<std::int64_t>& replicas, std::int64_t copies) {
  const auto stages = static_cast<std::int64_t>(replicas.size());
  Plan plan = even_plan(profile, stages, micro_batches, ScheduleKind::one_f_one_b);
  plan.micro_batch_size = 4;
  plan.data_parallel = copies;
  const std::int64_t per_copy = std::accumulate(replicas.begin(), replicas.end(), std::int64_t{0});
  std::int64_t first = 0;
  for (const StageId stage : ids<StageId>(plan.stages.size())) {
    plan.stages[stage].replicas = replicas[stage.index()];
    plan.stages[stage].devices.clear();
    for (std::int64_t copy = 0; copy < copies; ++copy)
      for (std::int64_t j = 0; j < replicas[stage.index()]; ++j)
        plan.stages[stage].devices.push_back(
            id_of<DeviceId>(static_cast<std::size_t>(copy * per_copy + first + j)));
    first += replicas[stage.index()];
  }
  plan.cluster = linked_cluster(per_copy * copies);
  return plan;
}

void recompute_all(Plan& plan, const Profile& profile) {
  for (StagePlan& stage : plan.stages)
    for (LayerId layer = stage.first; layer <= stage.last; layer = layer.next())
      if (profile.layers[layer].recomputable) stage.recompute.push_back(layer);
}

}  // namespace

TEST_CASE("gpu executor: a transformer trains as on one stage of the CPU, in the simulated time and memory") {
  check_named_schedules(small_transformer(), 2);
}

TEST_CASE("gpu executor: an mlp trains as on one stage of the CPU, in the simulated time and memory") {
  check_named_schedules(small_mlp(), 3);
}

TEST_CASE("gpu executor: each optimizer trains as on the CPU") {
  const ModelGraph model = small_mlp();
  const Profile profile = known_profile(model, {2});
  for (const auto& entry : spellings(OptimizerRule{})) {
    if (entry.value == OptimizerRule::none) continue;
    INFO(entry.text);
    Plan plan = even_plan(profile, 2, 3, ScheduleKind::one_f_one_b);
    plan.state.optimizer = entry.value;
    ExecuteOptions options = training_options();
    options.optimizer.rule = entry.value;
    check_run(model, profile, plan, make_schedule(plan).value(), options, bit_for_bit);
  }
}

TEST_CASE("gpu executor: emulated links delay tensors as simulated, in every mode, at any latency") {
  const ModelGraph model = small_transformer();
  const Profile profile = known_profile(model, {2});
  for (const auto& entry : spellings(TransferMode{}))
    for (const Nanoseconds latency : {Nanoseconds{0}, Nanoseconds{700}, Nanoseconds{3500}})
      for (const std::int64_t micro_batches : {1, 4}) {
        INFO(entry.text << ", latency " << latency.count() << " ns, " << micro_batches << " micro-batches");
        Plan plan = even_plan(profile, 3, micro_batches, ScheduleKind::one_f_one_b);
        plan.cluster = linked_cluster(3, latency);
        plan.transfers = entry.value;
        ExecuteOptions options = training_options();
        options.emulate_links = true;
        check_run(model, profile, plan, make_schedule(plan).value(), options, bit_for_bit);
      }
}

TEST_CASE("gpu executor: two chunks per rank run as simulated") {
  const ModelGraph model = small_transformer();
  const Profile profile = known_profile(model, {2});
  const Plan plan = chunked_plan(profile, 2);
  const Schedule schedule =
      hand_made(4, 2, {"F0.0 F0.1 F2.0 F2.1 X2.0 X2.1 X0.0 X0.1", "F1.0 F1.1 F3.0 X3.0 F3.1 X3.1 X1.0 X1.1"});
  ExecuteOptions options = training_options();
  options.emulate_links = true;
  check_run(model, profile, plan, schedule, options, bit_for_bit);
}

TEST_CASE("gpu executor: a backward in two parts runs as simulated") {
  const ModelGraph model = small_transformer();
  const Profile profile = known_profile(model, {2});
  const Plan plan = even_plan(profile, 2, 3, ScheduleKind::one_f_one_b);
  const Schedule schedule = hand_made(
      2, 3, {"F0.0 F0.1 B0.0 F0.2 B0.1 W0.0 B0.2 W0.1 W0.2", "F1.0 B1.0 F1.1 B1.1 W1.0 F1.2 W1.1 B1.2 W1.2"});
  check_run(model, profile, plan, schedule, training_options(), bit_for_bit);
}

TEST_CASE("gpu executor: recomputation within the backward and apart from it runs as simulated") {
  const ModelGraph model = small_transformer();
  const Profile profile = known_profile(model, {2});
  Plan plan = even_plan(profile, 2, 2, ScheduleKind::one_f_one_b);
  recompute_all(plan, profile);
  check_run(model, profile, plan, make_schedule(plan).value(), training_options(), bit_for_bit);
  const Schedule apart = hand_made(2, 2, {"F0.0 F0.1 R0.0 X0.0 R0.1 X0.1", "F1.0 R1.0 X1.0 F1.1 R1.1 X1.1"});
  check_run(model, profile, plan, apart, training_options(), bit_for_bit);
}

TEST_CASE("gpu executor: replicas and copies give the gradients of one stage, on one GPU and on many") {
  const ModelGraph model = small_transformer();
  const Profile profile = known_profile(model, {1, 2, 4});
  for (const std::int64_t copies : {1, 2}) {
    for (const std::vector<std::int64_t>& replicas :
         {std::vector<std::int64_t>{1, 1}, {2, 1}, {1, 2}, {2, 4}, {4, 2, 1}}) {
      INFO(copies << " copies, first stage " << replicas.front() << " replicas of " << replicas.size());
      const Plan plan = replicated_plan(profile, 3, replicas, copies);
      ExecuteOptions options = training_options();
      options.emulate_links = true;
      const Schedule schedule = make_schedule(plan).value();
      const auto green = check_run(model, profile, plan, schedule, options, other_order_of_summation);
      options.partitions = PartitionKind::device;
      const auto apart = check_run(model, profile, plan, schedule, options, other_order_of_summation);
      const Equivalence same = compare_training(*green.training, *apart.training, model, {});
      CHECK_MESSAGE(same.equal, same.difference);
    }
  }
}

TEST_CASE("gpu executor: peers on two GPUs send gradients after the last backward and step after that") {
  const ModelGraph model = small_mlp();
  const Profile profile = known_profile(model, {2, 4});
  const Plan plan = replicated_plan(profile, 3, {2}, 1);
  HostGpuOptions gpu_options = known_times();
  gpu_options.device_count = 2;
  gpu_options.send_latency = Nanoseconds{5000};
  HostGpu gpu(gpu_options);
  ExecuteOptions options = training_options();
  options.partitions = PartitionKind::device;
  const Schedule schedule = make_schedule(plan).value();
  const Timeline timeline = run_soundly(gpu, model, profile, plan, schedule, options).timeline;
  Nanoseconds forward{}, backward{}, step{};
  std::int64_t learning_layers = 0;
  for (const ProfiledLayer& layer : profile.layers) {
    learning_layers += layer.parameter_count > 0 ? 1 : 0;
    forward += layer.costs.front().forward;
    backward += layer.costs.front().backward();
    step += layer.costs.front().optimizer;
  }
  // Each peer sends a share of each layer twice: to be summed, and summed.
  CHECK(timeline.makespan == 3 * (forward + backward));
  CHECK(timeline.iteration == timeline.makespan + 2 * learning_layers * Nanoseconds{5000} + step);
}

TEST_CASE("gpu executor: the host waits no oftener for many micro-batches than for few") {
  const ModelGraph model = small_mlp();
  const Profile profile = known_profile(model, {2});
  std::vector<std::int64_t> waits;
  for (const std::int64_t micro_batches : {2, 16}) {
    HostGpu gpu(known_times());
    const Plan plan = even_plan(profile, 2, micro_batches, ScheduleKind::one_f_one_b);
    run_soundly(gpu, model, profile, plan, make_schedule(plan).value(), training_options());
    waits.push_back(gpu.host_wait_count());
  }
  CHECK(waits[0] == waits[1]);
}

TEST_CASE("gpu executor: the notes say what each stage was granted, and that plain streams share") {
  const ModelGraph model = small_mlp();
  const Profile profile = known_profile(model, {2});
  const Plan plan = even_plan(profile, 2, 2, ScheduleKind::gpipe);
  ExecuteOptions options = training_options();
  HostGpu gpu(known_times());
  const auto green = run_soundly(gpu, model, profile, plan, make_schedule(plan).value(), options);
  // 132 SMs are 16 groups of 8 and 4 left over: 16 / 2 * 8 for each stage.
  REQUIRE(green.notes.size() == 2);
  CHECK(green.notes[0] == "stage 0: GPU 0 (host GPU), green context of 64 of 132 SMs");
  options.partitions = PartitionKind::streams;
  const auto streams = run_soundly(gpu, model, profile, plan, make_schedule(plan).value(), options);
  REQUIRE(streams.notes.size() == 3);
  CHECK(streams.notes[1] == "stage 1: GPU 0 (host GPU), plain stream");
  CHECK(streams.notes[2].find("stages share all SMs") != std::string::npos);
}

TEST_CASE("gpu executor: a resumed run of replicas under adam loses as one that went through") {
  const ModelGraph model = small_mlp();
  const Profile profile = known_profile(model, {2, 4});
  Plan plan = replicated_plan(profile, 2, {2, 1}, 1);
  plan.state.optimizer = OptimizerRule::adam;
  const Schedule schedule = make_schedule(plan).value();
  ExecuteOptions options = training_options();
  options.optimizer.rule = OptimizerRule::adam;
  options.warm_ups = 1;
  options.iterations = 6;
  HostGpu gpu(known_times());
  const Execution unbroken = run_soundly(gpu, model, profile, plan, schedule, options);

  const TemporaryFolder folder;
  options.checkpoints = folder.checkpoints("run");
  options.checkpoints->every = 2;
  options.iterations = 3;
  run_soundly(gpu, model, profile, plan, schedule, options);
  options.iterations = 6;
  const Execution resumed = run_soundly(gpu, model, profile, plan, schedule, options);
  CHECK(resumed.resumed_at == 4);  // 1 + 3 iterations, the last of them saved
  CHECK(resumed.mean_losses == unbroken.mean_losses);
}

}  // namespace pipeplan
