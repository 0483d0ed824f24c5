#include "executor/checkpoint.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "models/base/digest.hpp"
#include "models/base/json_reader.hpp"

namespace pipeplan {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view schema = "pipeplan.checkpoint/1";
constexpr std::string_view manifest_name = "checkpoint.json";
constexpr std::string_view losses_name = "mean_losses.f64";
constexpr std::string_view finished_prefix = "iteration-";
constexpr std::string_view unfinished_prefix = "unfinished-";

static_assert(sizeof(float) == 4 && sizeof(double) == 8);

Failure cannot(const std::string& path, const char* what, const std::error_code& reason) {
  return fail(ErrorCode::unavailable, path, fmt::format("cannot be {}: {}", what, reason.message()));
}

// The iterations of a finished checkpoint's folder name; nothing for any other name.
std::optional<std::int64_t> iterations_in(const std::string& name) {
  if (!name.starts_with(finished_prefix)) return std::nullopt;
  const std::string digits = name.substr(finished_prefix.size());
  if (digits.size() < 8 || digits.size() > 15 ||
      !std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; }))
    return std::nullopt;
  return std::stoll(digits);
}

std::string finished_name(std::int64_t iterations) {
  return fmt::format("{}{:08}", finished_prefix, iterations);
}

// What a checkpoint folder's entries are, by name.
struct Contents {
  std::vector<std::int64_t> finished;  // ascending
  std::vector<std::string> unfinished;
};

Result<Contents> list(const std::string& folder) {
  Contents contents;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (const auto iterations = iterations_in(name)) contents.finished.push_back(*iterations);
    if (name.starts_with(unfinished_prefix)) contents.unfinished.push_back(name);
  }
  if (error && error != std::errc::no_such_file_or_directory) return cannot(folder, "listed", error);
  std::ranges::sort(contents.finished);
  return contents;
}

// Waits until the entries of a folder are on the disk.
Result<void> sync_folder(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool synced = descriptor >= 0 && ::fsync(descriptor) == 0;
  const std::error_code reason(errno, std::generic_category());
  if (descriptor >= 0) ::close(descriptor);
  if (!synced) return cannot(path, "flushed to the disk", reason);
  return {};
}

// Under an unfinished name first: a folder that is being removed never looks whole.
Result<void> remove_checkpoint(const std::string& folder, const std::string& name) {
  std::string doomed = folder + "/" + name;
  std::error_code error;
  if (!name.starts_with(unfinished_prefix)) {
    const std::string renamed = fmt::format("{}/{}{}", folder, unfinished_prefix, name);
    fs::rename(doomed, renamed, error);
    if (error) return cannot(doomed, "removed", error);
    doomed = renamed;
  }
  fs::remove_all(doomed, error);
  if (error) return cannot(doomed, "removed", error);
  return {};
}

template<class Scalar>
std::string raw_bytes(const std::vector<Scalar>& values) {
  std::string bytes(values.size() * sizeof(Scalar), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::string stage_file(StageId stage) { return fmt::format("stage-{}.f32", stage.value); }

// A stage's layers one after the other, parameters then state.
std::string stage_bytes(const StageValues& values) {
  std::string bytes;
  for (std::size_t layer = 0; layer < values.parameters.size(); ++layer) {
    bytes += raw_bytes(values.parameters[layer]);
    bytes += raw_bytes(values.optimizer_state[layer]);
  }
  return bytes;
}

Json stage_json(const StageValues& values, StageId stage, const std::string& bytes) {
  Json parameters = Json::array(), state = Json::array();
  for (const auto& layer : values.parameters) parameters.push_back(layer.size());
  for (const auto& layer : values.optimizer_state) state.push_back(layer.size());
  return {{"file", stage_file(stage)},
          {"digest", digest_of_bytes(bytes)},
          {"parameter_counts", std::move(parameters)},
          {"state_counts", std::move(state)}};
}

Result<void> write_files(const Checkpoint& checkpoint, const std::string& folder) {
  const std::string losses = raw_bytes(checkpoint.mean_losses);
  Json manifest{{"schema", schema},
                {"training_digest", checkpoint.training_digest},
                {"iterations", checkpoint.iterations},
                {"losses_digest", digest_of_bytes(losses)},
                {"stages", Json::array()}};
  PIPEPLAN_CHECK(write_text_file(fmt::format("{}/{}", folder, losses_name), losses));
  for (const StageId stage : ids<StageId>(checkpoint.stages.size())) {
    const std::string bytes = stage_bytes(checkpoint.stages[stage]);
    PIPEPLAN_CHECK(write_text_file(fmt::format("{}/{}", folder, stage_file(stage)), bytes));
    manifest["stages"].push_back(stage_json(checkpoint.stages[stage], stage, bytes));
  }
  return write_text_file(fmt::format("{}/{}", folder, manifest_name), document_text(manifest));
}

// Reads one checkpoint and holds every file against the manifest.
class CheckpointReader {
 public:
  explicit CheckpointReader(std::string folder) : folder_(std::move(folder)), source_(path(manifest_name)) {}

  Result<Checkpoint> read() {
    PIPEPLAN_TRY(json, read_json_file(path(manifest_name)));
    ObjectReader manifest(source_, json, "");
    manifest.expect_schema(std::string(schema));
    Checkpoint checkpoint;
    checkpoint.training_digest = manifest.text("training_digest");
    checkpoint.iterations = manifest.integer("iterations", 1);
    const std::string losses_digest = manifest.text("losses_digest");
    std::vector<ObjectReader> stages = manifest.objects("stages");
    manifest.done();
    PIPEPLAN_CHECK(source_.result(true));
    PIPEPLAN_CHECK(read_losses(losses_digest, checkpoint));
    for (ObjectReader& stage : stages) {
      PIPEPLAN_TRY(values, read_stage(stage));
      checkpoint.stages.push_back(std::move(values));
    }
    return checkpoint;
  }

 private:
  [[nodiscard]] std::string path(std::string_view file) const { return fmt::format("{}/{}", folder_, file); }

  [[nodiscard]] Result<std::string> verified(const std::string& file, const std::string& wanted_digest,
                                             std::size_t wanted_size) const {
    PIPEPLAN_TRY(bytes, read_text_file(path(file)));
    if (bytes.size() != wanted_size)
      return bad_input(path(file), fmt::format("has {} bytes, wanted {}", bytes.size(), wanted_size),
                       remove_hint());
    if (const std::string seen = digest_of_bytes(bytes); seen != wanted_digest)
      return bad_input(path(file), fmt::format("has digest {}, wanted {}", seen, wanted_digest),
                       remove_hint());
    return std::move(bytes);
  }

  [[nodiscard]] std::string remove_hint() const {
    return fmt::format("the checkpoint is damaged: remove {} to resume from the one before", folder_);
  }

  Result<void> read_losses(const std::string& wanted_digest, Checkpoint& checkpoint) const {
    const auto count = static_cast<std::size_t>(checkpoint.iterations);
    PIPEPLAN_TRY(bytes, verified(std::string(losses_name), wanted_digest, count * sizeof(double)));
    checkpoint.mean_losses.resize(count);
    std::memcpy(checkpoint.mean_losses.data(), bytes.data(), bytes.size());
    return {};
  }

  Result<StageValues> read_stage(ObjectReader& stage) {
    const std::string file = stage.text("file");
    const std::string wanted_digest = stage.text("digest");
    const std::vector<std::int64_t> parameters = stage.integers("parameter_counts");
    const std::vector<std::int64_t> state = stage.integers("state_counts");
    stage.done();
    if (parameters.size() != state.size())
      stage.fail("state_counts", fmt::format("has {} layers, wanted {}", state.size(), parameters.size()));
    PIPEPLAN_CHECK(source_.result(true));
    std::size_t scalars = 0;
    for (const auto* counts : {&parameters, &state})
      for (const std::int64_t count : *counts) scalars += static_cast<std::size_t>(count);
    PIPEPLAN_TRY(bytes, verified(file, wanted_digest, scalars * sizeof(float)));
    return values_in(bytes, parameters, state);
  }

  static StageValues values_in(const std::string& bytes, const std::vector<std::int64_t>& parameters,
                               const std::vector<std::int64_t>& state) {
    StageValues values;
    const char* next = bytes.data();
    const auto take = [&next](std::int64_t count) {
      std::vector<float> scalars(static_cast<std::size_t>(count));
      if (!scalars.empty()) std::memcpy(scalars.data(), next, scalars.size() * sizeof(float));
      next += scalars.size() * sizeof(float);
      return scalars;
    };
    for (std::size_t layer = 0; layer < parameters.size(); ++layer) {
      values.parameters.push_back(take(parameters[layer]));
      values.optimizer_state.push_back(take(state[layer]));
    }
    return values;
  }

  std::string folder_;
  JsonSource source_;
};

Result<void> remove_all_but_newest(const CheckpointOptions& options) {
  PIPEPLAN_TRY(contents, list(options.folder));
  const auto count = static_cast<std::int64_t>(contents.finished.size());
  for (std::int64_t i = 0; i < count - std::max<std::int64_t>(options.keep, 1); ++i)
    PIPEPLAN_CHECK(
        remove_checkpoint(options.folder, finished_name(contents.finished[static_cast<std::size_t>(i)])));
  return {};
}

}  // namespace

Result<void> save_checkpoint(const Checkpoint& checkpoint, const CheckpointOptions& options) {
  std::error_code error;
  fs::create_directories(options.folder, error);
  if (error) return cannot(options.folder, "made", error);
  PIPEPLAN_TRY(before, list(options.folder));
  for (const std::string& name : before.unfinished) PIPEPLAN_CHECK(remove_checkpoint(options.folder, name));

  const std::string name = finished_name(checkpoint.iterations);
  const std::string unfinished = fmt::format("{}/{}{}", options.folder, unfinished_prefix, name);
  const std::string finished = fmt::format("{}/{}", options.folder, name);
  fs::create_directory(unfinished, error);
  if (error) return cannot(unfinished, "made", error);
  PIPEPLAN_CHECK(write_files(checkpoint, unfinished));
  PIPEPLAN_CHECK(sync_folder(unfinished));
  fs::rename(unfinished, finished, error);
  if (error) return cannot(finished, "made", error);
  PIPEPLAN_CHECK(sync_folder(options.folder));
  return remove_all_but_newest(options);
}

Result<std::optional<Checkpoint>> newest_checkpoint(const CheckpointOptions& options,
                                                    const std::string& training_digest) {
  PIPEPLAN_TRY(contents, list(options.folder));
  if (contents.finished.empty()) return std::nullopt;
  const std::int64_t newest = contents.finished.back();
  if (!options.resume)
    return bad_input(options.folder, fmt::format("has a checkpoint of iteration {} already", newest),
                     "go on from it with --resume, or name another folder");
  const std::string folder = fmt::format("{}/{}", options.folder, finished_name(newest));
  PIPEPLAN_TRY(checkpoint, CheckpointReader(folder).read());
  if (checkpoint.iterations != newest)
    return bad_input(folder, fmt::format("is a checkpoint of iteration {}, wanted {} as its name says",
                                         checkpoint.iterations, newest));
  if (checkpoint.training_digest != training_digest)
    return bad_input(folder,
                     fmt::format("is of another training: its digest is {}, this one's {}",
                                 checkpoint.training_digest, training_digest),
                     "model, plan, optimizer, learning rate and seed must be those of the checkpointed run");
  return std::optional<Checkpoint>(std::move(checkpoint));
}

}  // namespace pipeplan
