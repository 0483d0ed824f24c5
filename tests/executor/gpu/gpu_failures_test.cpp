// What a GPU refuses becomes an error that names who asked; nothing trains on after it.

#include <doctest/doctest.h>

#include "tests/executor/gpu/gpu_runs.hpp"

namespace pipeplan {
namespace {

using namespace pipeplan::test;

struct SmallRun {
  ModelGraph model = small_mlp();
  Profile profile = known_profile(model, {2});
  Plan plan = even_plan(profile, 2, 2, ScheduleKind::one_f_one_b);
  Schedule schedule = make_schedule(plan).value();
  ExecuteOptions options = training_options();

  Result<Execution> on(HostGpu& gpu) const { return run_on(gpu, model, profile, plan, schedule, options); }
};

}  // namespace

TEST_CASE("gpu executor: a launch that fails names call, layer, pass, micro-batch and stage") {
  const SmallRun run;
  HostGpuOptions options = known_times();
  // Stage 0 has 4 of the 8 layers; its first forward launches one kernel for each of them.
  options.failing_launch = 3;
  HostGpu gpu(options);
  const auto execution = run.on(gpu);
  REQUIRE(!execution.has_value());
  CHECK(execution.error().code == ErrorCode::unavailable);
  CHECK(execution.error().message ==
        "cudaLaunchKernel failed in layer 2, forward, micro-batch 0: made to fail");
  CHECK(execution.error().where == "stage 0 on device 0");
}

TEST_CASE("gpu executor: whichever launch fails, the run ends with that error") {
  SmallRun run;
  run.options.warm_ups = 1;
  run.options.iterations = 1;
  HostGpu sound(known_times());
  REQUIRE(run.on(sound).has_value());
  for (std::int64_t launch = 1; launch < 120; launch += 7) {
    INFO("launch " << launch);
    HostGpuOptions options = known_times();
    options.failing_launch = launch;
    HostGpu gpu(options);
    const auto execution = run.on(gpu);
    if (launch > 60 && execution.has_value()) break;  // beyond the last launch
    REQUIRE(!execution.has_value());
    CHECK(execution.error().message.find("cudaLaunchKernel failed") != std::string::npos);
  }
}

TEST_CASE("gpu executor: a synchronisation that fails is an error of its queue") {
  const SmallRun run;
  for (const std::int64_t call : {1, 2, 3, 4, 5, 6, 7, 8}) {
    INFO("call " << call);
    HostGpuOptions options = known_times();
    options.failing_synchronize = call;
    HostGpu gpu(options);
    const auto execution = run.on(gpu);
    REQUIRE(!execution.has_value());
    CHECK(execution.error().message.find("cudaStreamSynchronize failed") != std::string::npos);
    CHECK(execution.error().where.find("on device 0") != std::string::npos);
  }
}

TEST_CASE("gpu executor: a stage without room is named, with what it needs and what is there") {
  const SmallRun run;
  HostGpuOptions options = known_times();
  options.memory = Bytes{1024};
  HostGpu gpu(options);
  const auto execution = run.on(gpu);
  REQUIRE(!execution.has_value());
  CHECK(execution.error().code == ErrorCode::unavailable);
  CHECK(execution.error().where == "stage 0");
  CHECK(execution.error().message.find("needs ") == 0);
  CHECK(execution.error().message.find("has 1.0 KiB left") != std::string::npos);
}

TEST_CASE("gpu executor: a plan for more GPUs than there are is refused, with the way out") {
  SmallRun run;
  run.options.partitions = PartitionKind::device;
  HostGpu gpu(known_times());
  const auto execution = run.on(gpu);
  REQUIRE(!execution.has_value());
  CHECK(execution.error().code == ErrorCode::unavailable);
  CHECK(execution.error().where == "stage 1");
  CHECK(execution.error().message == "is planned on device 1, this machine has 1 GPUs");
  CHECK(execution.error().hint.find("--partitions green") != std::string::npos);
}

TEST_CASE("gpu executor: no device is an error that the backend words") {
  const SmallRun run;
  HostGpuOptions options = known_times();
  options.device_count = 0;
  HostGpu gpu(options);
  const auto execution = run.on(gpu);
  REQUIRE(!execution.has_value());
  CHECK(execution.error().message.find("no CUDA device") == 0);
}

}  // namespace pipeplan
