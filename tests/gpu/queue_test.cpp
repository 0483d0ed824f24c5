#include <doctest/doctest.h>

#include <cmath>

#include "tests/gpu/queues.hpp"

using namespace pipeplan;
using namespace pipeplan::test;

TEST_CASE("cuda_queue: what is uploaded is downloaded, also beyond one staging block") {
  const auto queue = open_queue();
  for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, std::size_t{40} << 20}) {
    const std::vector<float> values = ramp(count, 0.5F);
    const Tensor tensor(*queue, values);
    CHECK(tensor.values() == values);
  }
  finish(*queue);
}

TEST_CASE("cuda_queue: an upload may forget its source at once") {
  const auto queue = open_queue();
  const Tensor tensor(*queue, 1000);
  queue->idle(std::chrono::milliseconds(5));
  std::vector<float> values = ramp(1000);
  queue->upload(values, tensor.place());
  values.assign(1000, -1);
  CHECK(tensor.values() == ramp(1000));
}

TEST_CASE("cuda_queue: fresh memory is 0") {
  const auto queue = open_queue();
  CHECK(Tensor(*queue, 5000).values() == std::vector<float>(5000, 0.0F));
}

TEST_CASE("cuda_queue: zero, fill, copy and add") {
  const auto queue = open_queue();
  const Tensor a(*queue, ramp(1003)), b(*queue, ramp(1003, 2));
  queue->add(a.place(), b.place(), 1003);
  CHECK(b.values() == ramp(1003, 1 + 2));
  queue->copy(b.place(), a.place(), 1003);
  CHECK(a.values() == ramp(1003, 3));
  queue->fill(a.place(), 1003, 7);
  CHECK(a.values() == std::vector<float>(1003, 7));
  queue->zero(b.place(), 1003);
  CHECK(b.values() == std::vector<float>(1003, 0));
  queue->fill(a.place(), 0, 9);
  CHECK(a.values() == std::vector<float>(1003, 7));
  finish(*queue);
}

TEST_CASE("cuda_queue: optimizer steps equal those of the CPU within rounding") {
  const auto queue = open_queue();
  for (const OptimizerRule rule : {OptimizerRule::sgd, OptimizerRule::momentum, OptimizerRule::adam}) {
    INFO(spelt(rule));
    const Optimizer optimizer{.rule = rule};
    const std::size_t count = 777;
    std::vector<float> parameters = ramp(count, 0.01F), gradients(count),
                       state(count * static_cast<std::size_t>(state_buffer_count(rule)));
    const Tensor there(*queue, parameters), gradients_there(*queue, count),
        state_there(*queue, std::max<std::size_t>(state.size(), 1));
    for (std::int64_t number = 1; number <= 3; ++number) {
      gradients = ramp(count, -0.001F * static_cast<float>(number));
      queue->upload(gradients, gradients_there.place());
      queue->step(optimizer, number, 777, there.place(), gradients_there.place(), state_there.place());
      optimizer_step(optimizer, number, 777, parameters.data(), gradients.data(), state.data());
    }
    CHECK(gradients_there.values() == gradients);
    const std::vector<float> found = there.values();
    for (std::size_t i = 0; i < count; ++i) CHECK(found[i] == doctest::Approx(parameters[i]).epsilon(1e-5));
  }
  finish(*queue);
}

TEST_CASE("cuda_queue: idle lasts as long as asked, by the events around it") {
  const auto queue = open_queue();
  auto begin = queue->make_event(EventUse::timing), end = queue->make_event(EventUse::timing);
  REQUIRE(begin.has_value());
  REQUIRE(end.has_value());
  queue->record(**begin);
  queue->idle(std::chrono::microseconds(500));
  queue->record(**end);
  finish(*queue);
  const auto elapsed = queue->elapsed(**begin, **end);
  REQUIRE(elapsed.has_value());
  CHECK(*elapsed >= std::chrono::microseconds(499));  // events count in half microseconds
}

TEST_CASE("cuda_queue: a sibling waits for an event of this queue") {
  const auto queue = open_queue();
  auto sibling = queue->make_sibling("copies");
  auto ready = queue->make_event(EventUse::ordering);
  REQUIRE(sibling.has_value());
  REQUIRE(ready.has_value());
  const Tensor source(*queue, 1000), target(*queue, 1000);
  queue->idle(std::chrono::milliseconds(5));
  queue->fill(source.place(), 1000, 3);
  queue->record(**ready);
  (*sibling)->wait(**ready);
  (*sibling)->send(source.place(), *queue, target.place(), 1000);
  finish(**sibling);
  CHECK(target.values() == std::vector<float>(1000, 3));
}

TEST_CASE("cuda_queue: more memory than there is is refused with the numbers") {
  const auto queue = open_queue();
  const auto arena = queue->reserve(Bytes{std::int64_t{1} << 44}, "stage 2");
  REQUIRE_FALSE(arena.has_value());
  CHECK(arena.error().code == ErrorCode::unavailable);
  CHECK(arena.error().where == "stage 2");
  CHECK(arena.error().message.find("needs 16.0 TiB on GPU 0") != std::string::npos);
  CHECK(Tensor(*queue, ramp(10)).values() == ramp(10));
  finish(*queue);
}

TEST_CASE("cuda_queue: a failure names its label, stops what follows, and is told once") {
  const auto queue = open_queue();
  const Tensor tensor(*queue, ramp(10));
  {
    const LaunchScope scope(*queue, {.layer = 3, .pass = LayerPass::backward_weight, .micro_batch = 2});
    queue->copy(nullptr, tensor.place(), 10);
    queue->zero(tensor.place(), 10);
  }
  const auto failed = queue->synchronize();
  REQUIRE_FALSE(failed.has_value());
  CHECK(failed.error().where == "test, GPU 0");
  CHECK(failed.error().message.find("cudaMemcpyAsync on the device failed") == 0);
  CHECK(failed.error().message.find("in layer 3, backward_weight, micro-batch 2") != std::string::npos);
  CHECK(queue->synchronize().has_value());
  CHECK(tensor.values() == ramp(10));
}

TEST_CASE("cuda_queue: the high water of the pool holds what was reserved") {
  const auto queue = open_queue();
  const Tensor tensor(*queue, 1 << 20);
  const auto most = queue->pool_high_water();
  REQUIRE(most.has_value());
  CHECK(most->value >= 4 << 20);
}
