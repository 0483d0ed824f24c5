#include "models/layers/green_split.hpp"

#include <doctest/doctest.h>

#include <numeric>

#include "tests/support/random.hpp"

using namespace pipeplan;

namespace {

using SmCounts = std::vector<std::optional<std::int64_t>>;

// An H200: 132 SMs fall into 16 groups of 8, and 4 are left over.
constexpr SmGroups h200{16, 8, 132};

std::vector<std::int64_t> shares(const SmCounts& sm_counts) {
  const auto split = split_groups(h200, sm_counts, "GPU 0");
  REQUIRE(split.has_value());
  return *split;
}

Error refusal(const SmCounts& sm_counts) {
  const auto split = split_groups(h200, sm_counts, "GPU 0");
  REQUIRE_FALSE(split.has_value());
  return split.error();
}

}  // namespace

TEST_CASE("green_split: sizes are rounded down to whole groups") {
  CHECK(shares({8, 32, 39, 40}) == std::vector<std::int64_t>{1, 32 / 8, 39 / 8, 40 / 8});
}

TEST_CASE("green_split: open requests share what is left equally") {
  CHECK(shares({std::nullopt}) == std::vector<std::int64_t>{16});
  CHECK(shares({std::nullopt, std::nullopt}) == std::vector<std::int64_t>{16 / 2, 16 / 2});
  CHECK(shares({std::nullopt, std::nullopt, std::nullopt}) ==
        std::vector<std::int64_t>{16 / 3, 16 / 3, 16 / 3});
  CHECK(shares({std::nullopt, 48, std::nullopt}) ==
        std::vector<std::int64_t>{(16 - 48 / 8) / 2, 48 / 8, (16 - 48 / 8) / 2});
}

TEST_CASE("green_split: all groups can be given, one more is refused with the numbers") {
  CHECK(shares({64, 64}) == std::vector<std::int64_t>{8, 8});
  CHECK(shares(SmCounts(16, 8)) == std::vector<std::int64_t>(16, 1));
  const Error error = refusal({64, 72});
  CHECK(error.code == ErrorCode::bad_usage);
  CHECK(error.where == "GPU 0");
  CHECK(error.message ==
        "2 green contexts want 136 SMs, but 128 can be shared out in groups of 8 (of 132 SMs)");
}

TEST_CASE("green_split: an open request wants at least one group") {
  CHECK(refusal({128, std::nullopt}).code == ErrorCode::bad_usage);
  CHECK(refusal(SmCounts(17)).code == ErrorCode::bad_usage);
}

TEST_CASE("green_split: less than a group is refused with the smallest size") {
  CHECK(refusal({4}).message == "a green context of 4 SMs was asked for, but the smallest has 8");
  CHECK(refusal({0}).code == ErrorCode::bad_usage);
  CHECK(refusal({-8}).code == ErrorCode::bad_usage);
}

TEST_CASE("green_split: sizes beyond all sums are refused, not added up") {
  CHECK(refusal({std::int64_t{1} << 62, std::int64_t{1} << 62, std::int64_t{1} << 62}).code ==
        ErrorCode::bad_usage);
}

TEST_CASE("green_split: random requests get what they ask for, or are refused for good reason") {
  for (std::uint32_t seed = 0; seed < 500; ++seed) {
    INFO("seed ", seed);
    test::Random random(seed);
    const SmGroups groups{random.between(1, 20), 2 * random.between(1, 8), 1000};
    SmCounts sm_counts(static_cast<std::size_t>(random.between(1, 6)));
    std::int64_t least = 0;
    for (auto& sm_count : sm_counts) {
      if (random.coin()) sm_count = random.between(groups.sms_each, groups.sms_each + 60);
      least += sm_count ? *sm_count / groups.sms_each : 1;
    }
    const auto split = split_groups(groups, sm_counts, "");
    CHECK(split.has_value() == (least <= groups.count));
    if (!split) continue;
    CHECK(std::accumulate(split->begin(), split->end(), std::int64_t{0}) <= groups.count);
    for (std::size_t i = 0; i < sm_counts.size(); ++i) {
      CHECK((*split)[i] >= 1);
      if (!sm_counts[i]) continue;
      const std::int64_t given = (*split)[i] * groups.sms_each;
      CHECK(given <= *sm_counts[i]);
      CHECK(given > *sm_counts[i] - groups.sms_each);
    }
  }
}
