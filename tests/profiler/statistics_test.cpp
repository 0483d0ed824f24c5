#include "profiler/statistics.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "profiler/load_guard.hpp"
#include "profiler/stopping_rule.hpp"

namespace pipeplan {
namespace {

std::vector<Nanoseconds> samples(std::initializer_list<std::int64_t> values) {
  std::vector<Nanoseconds> all;
  for (const std::int64_t value : values) all.emplace_back(value);
  return all;
}

}  // namespace

TEST_CASE("statistics: the median is the middle, the lower of two, whatever the order") {
  CHECK(median(samples({7})) == Nanoseconds{7});
  CHECK(median(samples({9, 1, 5})) == Nanoseconds{5});
  CHECK(median(samples({8, 2, 6, 4})) == Nanoseconds{4});
}

TEST_CASE("statistics: one outlier moves neither the median nor the spread") {
  const auto with_outlier = samples({100, 101, 99, 100, 100, 1'000'000});
  CHECK(median(with_outlier) == Nanoseconds{100});
  CHECK(median_absolute_deviation(with_outlier) == Nanoseconds{0});
  CHECK(median_absolute_deviation(samples({1, 2, 3, 4, 5})) == Nanoseconds{1});
  CHECK(spread_fraction(samples({90, 100, 110})) == doctest::Approx(10.0 / 100.0));
  CHECK(spread_fraction(samples({0, 0, 0})) == 0);
}

TEST_CASE("statistics: quantiles are by nearest rank") {
  const auto ten = samples({1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  CHECK(quantile(ten, 0.1) == Nanoseconds{1});
  CHECK(quantile(ten, 0.9) == Nanoseconds{9});
  CHECK(quantile(ten, 1.0) == Nanoseconds{10});
}

TEST_CASE("stopping rule: never before the least, at the latest at the most or when time is up") {
  StoppingRule rule{.least = 3, .most = 6, .wanted_error_fraction = 0.01, .longest = Nanoseconds{1000}};
  CHECK(!rule.enough(samples({5, 5}), Nanoseconds{10'000}));
  CHECK(rule.enough(samples({5, 5, 5}), Nanoseconds{0}));
  CHECK(!rule.enough(samples({10, 50, 90, 130}), Nanoseconds{0}));
  CHECK(rule.enough(samples({10, 50, 90, 130}), Nanoseconds{1000}));
  CHECK(rule.enough(samples({10, 50, 90, 130, 170, 210}), Nanoseconds{0}));
}

TEST_CASE("load guard: clean below 2 percent stolen, never negative, and says the figure") {
  const LoadVerdict clean{.wall = Nanoseconds{1000}, .cpu = Nanoseconds{985}};
  CHECK(clean.clean());
  CHECK(clean.steal_fraction() == doctest::Approx(15.0 / 1000.0));
  const LoadVerdict busy{.wall = Nanoseconds{1000}, .cpu = Nanoseconds{900}};
  CHECK(!busy.clean());
  CHECK(busy.sentence().find("10.0 %") != std::string::npos);
  CHECK(LoadVerdict{.wall = Nanoseconds{100}, .cpu = Nanoseconds{101}}.steal_fraction() == 0);
  CHECK(LoadVerdict{}.clean());
}

}  // namespace pipeplan
