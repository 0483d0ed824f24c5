#include "planner/batch.hpp"

#include <doctest/doctest.h>

#include "tests/planner/instances.hpp"

using namespace pipeplan;
using namespace pipeplan::test;

namespace {

Profile profiled_at(const std::vector<std::int64_t>& sizes) {
  Profile profile = chain_of_times({1, 1});
  for (const LayerId layer : ids<LayerId>(2)) {
    const LayerCost cost = profile.layers[layer].costs.front();
    profile.layers[layer].costs.clear();
    for (const std::int64_t size : sizes) {
      profile.layers[layer].costs.push_back(cost);
      profile.layers[layer].costs.back().micro_batch_size = size;
    }
  }
  return profile;
}

struct Asked {
  std::optional<std::int64_t> size, count, batch;
  std::int64_t copies = 1;
};

Result<Batch> chosen(const std::vector<std::int64_t>& sizes, const Asked& asked) {
  PlanOptions options;
  options.micro_batch_size = asked.size;
  options.micro_batch_count = asked.count;
  options.global_batch = asked.batch;
  options.data_parallel = asked.copies;
  return choose_batch(profiled_at(sizes), options, 3);
}

std::string refusal(const std::vector<std::int64_t>& sizes, const Asked& asked) {
  const Result<Batch> batch = chosen(sizes, asked);
  if (batch) return "accepted";
  CHECK(batch.error().code == ErrorCode::bad_usage);
  return batch.error().message;
}

}  // namespace

TEST_CASE("choose_batch: what is left open follows from what is given") {
  CHECK(*chosen({4}, {}) == Batch{4, 4 * 3});
  CHECK(*chosen({2, 4}, {}) == Batch{2, 4 * 3});
  CHECK(*chosen({4}, {.count = 5}) == Batch{4, 5});
  CHECK(*chosen({4}, {.size = 8}) == Batch{8, 4 * 3});
  CHECK(*chosen({4}, {.batch = 64}) == Batch{4, 64 / 4});
  CHECK(*chosen({3, 5, 10}, {.batch = 20}) == Batch{5, 20 / 5});
  CHECK(*chosen({4}, {.count = 8, .batch = 64}) == Batch{64 / 8, 8});
  CHECK(*chosen({4}, {.size = 16, .batch = 64}) == Batch{16, 64 / 16});
  CHECK(*chosen({4}, {.size = 16, .count = 4, .batch = 64}) == Batch{16, 4});
}

TEST_CASE("choose_batch: a batch that cannot be cut is refused with the nearest that can") {
  CHECK(refusal({4}, {.size = 32, .batch = 100}) ==
        "global batch 100 is not a multiple of micro-batch size 32; the nearest that are: 96, 128");
  CHECK(refusal({4}, {.batch = 3}) ==
        "global batch 3 is not a multiple of micro-batch size 4; the nearest that is: 4");
  CHECK(refusal({4, 6}, {.batch = 9}) ==
        "global batch 9 is a multiple of no profiled micro-batch size (4, 6)");
  CHECK(refusal({4}, {.size = 4, .count = 3, .batch = 16}) ==
        "micro-batch size 4 times count 3 is 12, not the global batch 16");
}

TEST_CASE("choose_batch: a count that does not divide the batch is refused with those that do") {
  CHECK(refusal({4}, {.count = 3, .batch = 8}) ==
        "global batch 8 cannot be cut into 3 equal micro-batches; counts that divide it: 1, 2, 4, 8");
  CHECK(refusal({4}, {.count = 7, .batch = 3840}) ==
        "global batch 3840 cannot be cut into 7 equal micro-batches; counts that divide it: 2, 3, 4, 5, 6, "
        "8, 10, 12");
}

TEST_CASE("choose_batch: zero and negative numbers are refused") {
  CHECK(refusal({4}, {.size = 0}) == "micro-batch size is 0, wanted a number from 1 to 9007199254740991");
  CHECK(refusal({4}, {.count = 0}) == "micro-batch count is 0, wanted a number from 1 to 9007199254740991");
  CHECK(refusal({4}, {.batch = -8}) == "global batch is -8, wanted a number from 1 to 9007199254740991");
  CHECK(refusal({4}, {.size = largest_document_integer, .count = 2}).find("times count 2 is more than") !=
        std::string::npos);
}

TEST_CASE("choose_batch: layers without a common profiled size need the size said") {
  Profile profile = profiled_at({4});
  profile.layers[LayerId{1}].costs.front().micro_batch_size = 8;
  CHECK(!choose_batch(profile, {}, 2));
  PlanOptions options;
  options.micro_batch_size = 4;
  CHECK(*choose_batch(profile, options, 2) == Batch{4, 4 * 2});
}

TEST_CASE("choose_batch: copies of the pipeline share the global batch") {
  CHECK(*chosen({4}, {.copies = 5}) == Batch{4, 4 * 3});
  CHECK(*chosen({4}, {.batch = 64, .copies = 2}) == Batch{4, 64 / 2 / 4});
  CHECK(*chosen({4}, {.count = 8, .batch = 64, .copies = 2}) == Batch{64 / 2 / 8, 8});
  CHECK(*chosen({3, 5}, {.batch = 30, .copies = 2}) == Batch{3, 30 / 2 / 3});
  CHECK(*chosen({4}, {.size = 8, .count = 2, .batch = 64, .copies = 4}) == Batch{8, 2});
}

TEST_CASE("choose_batch: a batch that the copies cannot share is refused with the nearest that they can") {
  CHECK(refusal({4}, {.batch = 30, .copies = 4}) ==
        "global batch 30 is not a multiple of the 4 copies; the nearest that are: 28, 32");
  CHECK(refusal({4}, {.batch = 28, .copies = 2}) ==
        "global batch 28 is not a multiple of micro-batch size 4 times 2 copies; the nearest that are: 24, "
        "32");
  CHECK(refusal({4, 6}, {.batch = 18, .copies = 2}) ==
        "global batch 18, shared by 2 copies, is a multiple of no profiled micro-batch size (4, 6)");
  CHECK(refusal({4}, {.count = 3, .batch = 16, .copies = 2}) ==
        "each copy's share of the global batch, 8, cannot be cut into 3 equal micro-batches; counts that "
        "divide it: 1, 2, 4, 8");
  CHECK(refusal({4}, {.size = 4, .count = 3, .batch = 16, .copies = 2}) ==
        "micro-batch size 4 times count 3 times 2 copies is 24, not the global batch 16");
  CHECK(refusal({4}, {.copies = 0}) == "number of copies is 0, wanted a number from 1 to 9007199254740991");
}
