#include <doctest/doctest.h>
#include <fmt/format.h>

#include "profiler/profile.hpp"
#include "tests/profiler/profile_parts.hpp"
#include "tests/support/random.hpp"

namespace pipeplan {
namespace {

using test::cost;
using test::layer;

__extension__ using Wide = __int128;

std::int64_t forward_at(const ProfiledLayer& layer, std::int64_t size, Extrapolation extrapolation) {
  const auto cost = cost_at(layer, size, extrapolation);
  REQUIRE(cost.has_value());
  CHECK(cost->micro_batch_size == size);
  return cost->forward.count();
}

constexpr std::int64_t largest = largest_document_integer;

}  // namespace

TEST_CASE("cost_at: a measured size is given as it was measured") {
  LayerCost known = cost(4, 5, 6, 7);
  known.optimizer = Nanoseconds{8};
  known.activation = Bytes{9};
  known.input = Bytes{10};
  known.samples = 11;
  known.spread_fraction = 0.012;
  CHECK(cost_at(layer("a", {cost(1, 1, 2, 3), known}), 4, Extrapolation::refused).value() == known);
}

TEST_CASE("cost_at: between two sizes it follows the straight line, rounded to the nearest") {
  const ProfiledLayer three = layer("a", {cost(2, 100, 7, 0), cost(5, 200, 8, 3), cost(6, 0, 0, 0)});
  CHECK(forward_at(three, 3, Extrapolation::refused) == 133);  // 100 + 100 / 3
  CHECK(forward_at(three, 4, Extrapolation::refused) == 167);  // 100 + 200 / 3
  const LayerCost between = cost_at(three, 4, Extrapolation::refused).value();
  CHECK(between.backward_input.count() == 8);   // 7 + 2 / 3
  CHECK(between.backward_weight.count() == 2);  // 0 + 3 * 2 / 3
}

TEST_CASE("cost_at: an affine cost is met exactly, with numbers beyond 64 bits in between") {
  const std::uint64_t seed = 5;
  INFO("seed " << seed);
  test::Random random(seed);
  for (int i = 0; i < 500; ++i) {
    const std::int64_t fixed = random.between(0, 1 << 20), per_sample = random.between(0, 1 << 20);
    const std::int64_t low = random.between(1, 1'000'000'000), high = low + random.between(2, 1'000'000'000);
    const auto affine = [&](std::int64_t size) { return fixed + per_sample * size; };
    const ProfiledLayer two = layer("a", {cost(low, affine(low), 0, 0), cost(high, affine(high), 0, 0)});
    const std::int64_t size = random.between(1, high + high);
    CHECK(forward_at(two, size, Extrapolation::allowed) == affine(size));
  }
}

TEST_CASE("cost_at: the line never leaves the nearest whole of the exact value") {
  const std::uint64_t seed = 6;
  INFO("seed " << seed);
  test::Random random(seed);
  for (int i = 0; i < 500; ++i) {
    const std::int64_t low = random.between(1, 1000), high = low + random.between(2, 1000);
    const std::int64_t at_low = random.between(0, largest), at_high = random.between(0, largest);
    const ProfiledLayer two = layer("a", {cost(low, at_low, 0, 0), cost(high, at_high, 0, 0)});
    const std::int64_t size = random.between(low, high);
    const Wide exact_times_run = Wide{at_low} * (high - size) + Wide{at_high} * (size - low);
    const Wide error = Wide{forward_at(two, size, Extrapolation::refused)} * (high - low) - exact_times_run;
    CHECK(2 * error <= high - low);
    CHECK(2 * error >= -(high - low));
  }
}

TEST_CASE("cost_at: outside of the measured sizes it is refused, with the range and the way out") {
  const ProfiledLayer two = layer("a", {cost(2, 10, 0, 0), cost(4, 20, 0, 0)});
  for (const std::int64_t size : {1, 5}) {
    const auto refused = cost_at(two, size, Extrapolation::refused);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().message ==
          fmt::format("layer 'a' has no cost at micro-batch size {}, measured at sizes 2 to 4", size));
    CHECK(refused.error().hint.find("--extrapolate") != std::string::npos);
  }
  const auto single = cost_at(layer("a", {cost(2, 10, 0, 0)}), 3, Extrapolation::refused);
  CHECK(single.error().message.find("size 2 alone") != std::string::npos);
  CHECK_FALSE(cost_at(two, 0, Extrapolation::allowed).has_value());
  CHECK_FALSE(cost_at(two, -3, Extrapolation::allowed).has_value());
}

TEST_CASE("cost_at: extrapolation takes the two nearest sizes and stops at 0") {
  const ProfiledLayer three = layer("a", {cost(2, 100, 0, 0), cost(4, 300, 0, 0), cost(8, 400, 0, 0)});
  CHECK(forward_at(three, 1, Extrapolation::allowed) == 100 - 200 / 2);
  CHECK(forward_at(three, 16, Extrapolation::allowed) == 400 + 8 * 100 / 4);
  const ProfiledLayer steep = layer("a", {cost(2, 10, 0, 0), cost(3, 100, 0, 0)});
  CHECK(forward_at(steep, 1, Extrapolation::allowed) == 0);
}

TEST_CASE("cost_at: from one size alone costs are in proportion, the optimizer step is not") {
  LayerCost only = cost(4, 100, 7, 9);
  only.optimizer = Nanoseconds{50};
  only.activation = Bytes{40};
  only.output = Bytes{20};
  only.workspace = Bytes{12};
  const LayerCost twice = cost_at(layer("a", {only}), 8, Extrapolation::allowed).value();
  CHECK(twice.forward.count() == 2 * 100);
  CHECK(twice.backward_input.count() == 2 * 7);
  CHECK(twice.backward_weight.count() == 2 * 9);
  CHECK(twice.activation == Bytes{2 * 40});
  CHECK(twice.output == Bytes{2 * 20});
  CHECK(twice.workspace == Bytes{2 * 12});
  CHECK(twice.optimizer.count() == 50);
  CHECK(cost_at(layer("a", {only}), 2, Extrapolation::allowed)->forward.count() == 100 / 2);
}

TEST_CASE("cost_at: input and deferred follow the line as the activation does") {
  LayerCost low = cost(2, 0, 0, 0), high = cost(4, 0, 0, 0);
  low.input = Bytes{10}, high.input = Bytes{20};
  low.deferred = Bytes{100}, high.deferred = Bytes{300};
  const ProfiledLayer two = layer("a", {low, high});
  CHECK(cost_at(two, 3, Extrapolation::refused)->input == Bytes{(10 + 20) / 2});
  CHECK(cost_at(two, 3, Extrapolation::refused)->deferred == Bytes{(100 + 300) / 2});
  CHECK(cost_at(two, 6, Extrapolation::allowed)->input == Bytes{20 + 10});
  CHECK(cost_at(layer("a", {low}), 6, Extrapolation::allowed)->input == Bytes{3 * 10});
  CHECK(cost_at(layer("a", {low}), 6, Extrapolation::allowed)->deferred == Bytes{3 * 100});
}

TEST_CASE("cost_at: an input that is unknown at one neighbour is unknown in between") {
  LayerCost known = cost(4, 0, 0, 0);
  known.input = Bytes{20};
  const ProfiledLayer two = layer("a", {cost(2, 0, 0, 0), known});
  CHECK_FALSE(cost_at(two, 3, Extrapolation::refused)->input.has_value());
  CHECK(cost_at(two, 4, Extrapolation::refused)->input == Bytes{20});
  CHECK_FALSE(cost_at(layer("a", {cost(2, 0, 0, 0)}), 6, Extrapolation::allowed)->input.has_value());
}

TEST_CASE("cost_at: the optimizer step is interpolated inside and held outside of the measured sizes") {
  LayerCost low = cost(2, 0, 0, 0), high = cost(4, 0, 0, 0);
  low.optimizer = Nanoseconds{10};
  high.optimizer = Nanoseconds{20};
  const ProfiledLayer two = layer("a", {low, high});
  CHECK(cost_at(two, 3, Extrapolation::refused)->optimizer.count() == (10 + 20) / 2);
  CHECK(cost_at(two, 1, Extrapolation::allowed)->optimizer.count() == 10);
  CHECK(cost_at(two, 9, Extrapolation::allowed)->optimizer.count() == 20);
}

TEST_CASE("cost_at: a backward that is whole at one neighbour is whole in between") {
  LayerCost whole = cost(2, 0, 10, 0);
  whole.backward_is_split = false;
  const LayerCost between =
      cost_at(layer("a", {whole, cost(4, 0, 10, 20)}), 3, Extrapolation::refused).value();
  CHECK_FALSE(between.backward_is_split);
  CHECK(between.backward_input.count() == (10 + 30) / 2);
  CHECK(between.backward_weight.count() == 0);
}

TEST_CASE("cost_at: a guess beyond what a document can hold is refused") {
  const ProfiledLayer one = layer("a", {cost(1, largest, 0, 0)});
  CHECK_FALSE(cost_at(one, 2, Extrapolation::allowed).has_value());
  CHECK_FALSE(cost_at(one, largest, Extrapolation::allowed).has_value());
}

}  // namespace pipeplan
