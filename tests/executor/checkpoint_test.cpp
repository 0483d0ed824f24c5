// Checkpoints on the disk: whole or not there, the newest wins, damage is named.

#include "executor/checkpoint.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>

#include "models/base/json_file.hpp"
#include "tests/executor/temporary_folder.hpp"
#include "tests/support/random.hpp"

namespace pipeplan {
namespace {

namespace fs = std::filesystem;

// Where one test has its checkpoints.
struct Scratch {
  test::TemporaryFolder folder;
  [[nodiscard]] CheckpointOptions options() const { return folder.checkpoints("run", 2); }
};

std::vector<float> random_floats(test::Random& random, std::int64_t count) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back(static_cast<float>(random.between(-999, 999)) / 7);
  return values;
}

Checkpoint random_checkpoint(std::uint64_t seed, std::int64_t iterations) {
  test::Random random(seed);
  Checkpoint checkpoint{
      .training_digest = "xxh3:1", .iterations = iterations, .mean_losses = {}, .stages = {}};
  for (std::int64_t i = 0; i < iterations; ++i)
    checkpoint.mean_losses.push_back(static_cast<double>(random.between(0, 1000)) / 3);
  for (std::int64_t stage = random.between(1, 3); stage > 0; --stage) {
    StageValues values;
    for (std::int64_t layer = random.between(1, 4); layer > 0; --layer) {
      const std::int64_t count = 16 * random.between(0, 3);
      values.parameters.push_back(random_floats(random, count));
      values.optimizer_state.push_back(random_floats(random, random.coin() ? 2 * count : 0));
    }
    checkpoint.stages.push_back(values);
  }
  return checkpoint;
}

void check_equal(const Checkpoint& a, const Checkpoint& b) {
  CHECK(a.iterations == b.iterations);
  CHECK(a.mean_losses == b.mean_losses);
  REQUIRE(a.stages.size() == b.stages.size());
  for (const StageId stage : ids<StageId>(a.stages.size())) {
    CHECK(a.stages[stage].parameters == b.stages[stage].parameters);
    CHECK(a.stages[stage].optimizer_state == b.stages[stage].optimizer_state);
  }
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

}  // namespace

TEST_CASE("checkpoint: what is saved is read back to the last bit, on 50 random trainings") {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    INFO("seed " << seed);
    const Scratch scratch;
    const Checkpoint saved = random_checkpoint(seed, static_cast<std::int64_t>(seed % 5) + 1);
    REQUIRE(save_checkpoint(saved, scratch.options()));
    const auto read = newest_checkpoint(scratch.options(), "xxh3:1");
    REQUIRE(read.has_value());
    REQUIRE(read->has_value());
    check_equal(**read, saved);
  }
}

TEST_CASE("checkpoint: losses and values that are not numbers survive") {
  const Scratch scratch;
  Checkpoint saved = random_checkpoint(1, 2);
  saved.mean_losses[1] = std::numeric_limits<double>::infinity();
  REQUIRE(save_checkpoint(saved, scratch.options()));
  CHECK(newest_checkpoint(scratch.options(), "xxh3:1").value()->mean_losses == saved.mean_losses);
}

TEST_CASE("checkpoint: the newest is taken and the older ones beyond those to keep are gone") {
  const Scratch scratch;
  for (const std::int64_t iterations : {2, 4, 6, 8})
    REQUIRE(save_checkpoint(random_checkpoint(7, iterations), scratch.options()));
  CHECK(names_in(scratch.options().folder) ==
        std::vector<std::string>{"iteration-00000006", "iteration-00000008"});
  CHECK(newest_checkpoint(scratch.options(), "xxh3:1").value()->iterations == 8);
}

TEST_CASE("checkpoint: no folder, or one without a checkpoint, means a run from the start") {
  const Scratch scratch;
  CHECK_FALSE(newest_checkpoint(scratch.options(), "xxh3:1").value().has_value());
  fs::create_directories(scratch.options().folder + "/unfinished-iteration-00000003");
  CHECK_FALSE(newest_checkpoint(scratch.options(), "xxh3:1").value().has_value());
}

TEST_CASE("checkpoint: what a killed save left is passed over, then removed by the next save") {
  const Scratch scratch;
  REQUIRE(save_checkpoint(random_checkpoint(3, 1), scratch.options()));
  const std::string left = scratch.options().folder + "/unfinished-iteration-00000002";
  fs::create_directories(left);
  std::ofstream(left + "/stage-0.f32") << "half";
  CHECK(newest_checkpoint(scratch.options(), "xxh3:1").value()->iterations == 1);
  REQUIRE(save_checkpoint(random_checkpoint(3, 2), scratch.options()));
  CHECK(names_in(scratch.options().folder) ==
        std::vector<std::string>{"iteration-00000001", "iteration-00000002"});
}

TEST_CASE("checkpoint: a folder in use is refused unless the run resumes") {
  const Scratch scratch;
  REQUIRE(save_checkpoint(random_checkpoint(3, 1), scratch.options()));
  CheckpointOptions fresh = scratch.options();
  fresh.resume = false;
  const auto refused = newest_checkpoint(fresh, "xxh3:1");
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message == "has a checkpoint of iteration 1 already");
}

TEST_CASE("checkpoint: another training is refused") {
  const Scratch scratch;
  REQUIRE(save_checkpoint(random_checkpoint(3, 1), scratch.options()));
  const auto refused = newest_checkpoint(scratch.options(), "xxh3:2");
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message == "is of another training: its digest is xxh3:1, this one's xxh3:2");
}

TEST_CASE("checkpoint: a byte changed, added or lost anywhere in the data is an error that names the file") {
  const Scratch scratch;
  REQUIRE(save_checkpoint(random_checkpoint(11, 3), scratch.options()));
  const std::string folder = scratch.options().folder + "/iteration-00000003";
  for (const std::string& name : names_in(folder)) {
    INFO(name);
    const std::string path = fmt::format("{}/{}", folder, name);
    const std::string whole = read_text_file(path).value();
    if (name.ends_with(".json") || whole.empty()) continue;
    std::string changed = whole;
    changed[changed.size() / 2] = static_cast<char>(changed[changed.size() / 2] ^ 1);
    for (const std::string& damaged : {changed, whole + "x", whole.substr(1), std::string()}) {
      REQUIRE(write_text_file(path, damaged));
      const auto read = newest_checkpoint(scratch.options(), "xxh3:1");
      REQUIRE_FALSE(read.has_value());
      CHECK(read.error().where == path);
    }
    REQUIRE(write_text_file(path, whole));
  }
  CHECK(newest_checkpoint(scratch.options(), "xxh3:1").value()->iterations == 3);
}

TEST_CASE("checkpoint: a manifest cut short anywhere is an error, never a crash") {
  const Scratch scratch;
  REQUIRE(save_checkpoint(random_checkpoint(12, 1), scratch.options()));
  const std::string path = scratch.options().folder + "/iteration-00000001/checkpoint.json";
  const std::string whole = read_text_file(path).value();
  for (std::size_t length = 0; length + 2 < whole.size(); ++length) {
    INFO("cut at " << length);
    REQUIRE(write_text_file(path, whole.substr(0, length)));
    CHECK_FALSE(newest_checkpoint(scratch.options(), "xxh3:1").has_value());
  }
}

TEST_CASE("checkpoint: a folder that cannot be made is an error with its path") {
  CheckpointOptions options{.folder = "/proc/no/such/place", .every = 1};
  const auto refused = save_checkpoint(random_checkpoint(1, 1), options);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().where == "/proc/no/such/place");
}

}  // namespace pipeplan
