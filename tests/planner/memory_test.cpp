#include "planner/memory.hpp"

#include <doctest/doctest.h>

#include "tests/planner/instances.hpp"

using namespace pipeplan;
using namespace pipeplan::test;

namespace {

using enum MemoryItem;

std::vector<std::int64_t> in_flight_of_all(ScheduleKind schedule, std::int64_t ranks,
                                           std::int64_t micro_batches) {
  std::vector<std::int64_t> counts;
  for (std::int64_t rank = 0; rank < ranks; ++rank)
    counts.push_back(in_flight(schedule, ranks, micro_batches, rank));
  return counts;
}

std::vector<std::int64_t> state_of(const StateRule& rule, std::int64_t parameter_bytes) {
  const MemoryUse use = state_memory(rule, Bytes{parameter_bytes});
  CHECK(use.total() == use[weights] + use[gradients] + use[optimizer_state]);
  return {use[weights].value, use[gradients].value, use[optimizer_state].value};
}

using Counts = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("in_flight: naive holds 1, GPipe all, 1F1B the distance to the end of the pipeline") {
  CHECK(in_flight_of_all(ScheduleKind::naive, 3, 8) == Counts{1, 1, 1});
  CHECK(in_flight_of_all(ScheduleKind::gpipe, 3, 8) == Counts{8, 8, 8});
  CHECK(in_flight_of_all(ScheduleKind::one_f_one_b, 3, 8) == Counts{3, 2, 1});
  CHECK(in_flight_of_all(ScheduleKind::one_f_one_b, 4, 2) == Counts{2, 2, 2, 1});
}

TEST_CASE("receive_buffers: as many as the sender lead, per boundary") {
  CHECK(receive_buffers(ScheduleKind::naive, 3, 8, 0) == 1);
  CHECK(receive_buffers(ScheduleKind::gpipe, 3, 8, 1) == 8);
  CHECK(receive_buffers(ScheduleKind::one_f_one_b, 3, 8, 0) == 3);
  CHECK(receive_buffers(ScheduleKind::one_f_one_b, 3, 8, 1) == 2);
  CHECK(receive_buffers(ScheduleKind::one_f_one_b, 3, 1, 1) == 1);
}

TEST_CASE("state_memory: each optimizer weights, gradients and state") {
  CHECK(state_of({OptimizerRule::none, {}}, 10) == Counts{10, 0, 0});
  CHECK(state_of({OptimizerRule::sgd, {}}, 10) == Counts{10, 10, 0});
  CHECK(state_of({OptimizerRule::momentum, {}}, 10) == Counts{10, 10, 10});
  CHECK(state_of({OptimizerRule::adam, {}}, 10) == Counts{10, 10, 2 * 10});
}

TEST_CASE("state_memory: an outright multiple fills weights, then gradients, then state, and rounds up") {
  CHECK(state_of({OptimizerRule::adam, 1.0}, 10) == Counts{10, 0, 0});
  CHECK(state_of({OptimizerRule::adam, 1.25}, 10) == Counts{10, 3, 0});  // 12.5
  CHECK(state_of({OptimizerRule::sgd, 8.0}, 10) == Counts{10, 10, 6 * 10});
  CHECK(state_of({OptimizerRule::sgd, 2.1}, 10) == Counts{10, 10, 1});
  CHECK(state_of({OptimizerRule::sgd, 0.5}, 10) == Counts{5, 0, 0});
  CHECK(state_of({OptimizerRule::sgd, 0.0}, 10) == Counts{0, 0, 0});
}

TEST_CASE("stage_memory: a middle stage item by item") {
  const Profile profile = chain_profile({{.output = 2},
                                         {.parameter = 10, .activation = 7, .output = 30, .workspace = 4},
                                         {.parameter = 5, .activation = 1, .output = 11, .workspace = 9},
                                         {}});
  auto table = make_cost_table(profile, 1, 8, Extrapolation::refused);
  REQUIRE(table);
  DeviceType device;
  device.reserved = Bytes{100};
  device.memory = Bytes{1000};
  const StageMemory memory =
      stage_memory(*table, 1, 3, 1, 3, ScheduleKind::one_f_one_b, 8, {OptimizerRule::adam, {}}, device);
  CHECK(memory.constant[weights] == Bytes{10 + 5});
  CHECK(memory.constant[gradients] == Bytes{10 + 5});
  CHECK(memory.constant[optimizer_state] == Bytes{2 * (10 + 5)});
  CHECK(memory.constant[workspace] == Bytes{9});
  // Inputs of 2 bytes, 3 - 0 of them, and gradients of the 11-byte output, 3 - 1 of them.
  CHECK(memory.constant[communication] == Bytes{3 * 2 + 2 * 11});
  CHECK(memory.constant[reserved] == Bytes{100});
  CHECK(memory.constant[activations] == Bytes{0});
  CHECK(memory.activation_per_micro_batch == Bytes{7 + 1});
  CHECK(memory.limit == Bytes{1000});
  CHECK(peak_memory(memory, 2) == Bytes{4 * (10 + 5) + 9 + 3 * 2 + 2 * 11 + 100 + 2 * (7 + 1)});
}

TEST_CASE("stage_memory: the ends of the pipeline receive from one side only") {
  const Profile profile = chain_profile({{.output = 2}, {.output = 3}});
  auto table = make_cost_table(profile, 1, 4, Extrapolation::refused);
  REQUIRE(table);
  const auto received = [&](std::int64_t first, std::int64_t end, std::int64_t stage, std::int64_t stages) {
    return stage_memory(*table, first, end, stage, stages, ScheduleKind::gpipe, 4, {}, {})
        .constant[communication];
  };
  CHECK(received(0, 2, 0, 1) == Bytes{0});
  CHECK(received(0, 1, 0, 2) == Bytes{4 * 2});
  CHECK(received(1, 2, 1, 2) == Bytes{4 * 2});
}
