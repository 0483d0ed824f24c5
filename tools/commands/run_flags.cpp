#include "tools/commands/run_flags.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "tools/cli/flags.hpp"

namespace pipeplan {
namespace {

constexpr std::int64_t default_keep = 3;

}  // namespace

bool trains(Backend backend) { return backend == Backend::cpu || backend == Backend::cuda; }

void RunFlags::declare(CLI::App& app) {
  app.add_option("--backend", backend_, "where to run: " + word_choice<Backend>())->capture_default_str();
  app.add_option("--iterations", iterations_, "measured iterations")->capture_default_str();
  app.add_option("--warm-ups", warm_ups_, "iterations before them, not measured")->capture_default_str();
  app.add_option("--learning-rate", learning_rate_, "of the plan's optimizer")->capture_default_str();
  app.add_flag("--share-cores", share_cores_, "cpu: allow more stages than cores; times then mean nothing");
  app.add_flag("--emulate-links", emulate_links_,
               "cpu, cuda: tensors arrive no sooner than over the plan's links");
  app.add_option("--partitions", partitions_,
                 "cuda: stages in green contexts of one GPU, in plain streams, or a GPU each: " +
                     word_choice<PartitionKind>() + " (default green)");
  const auto add = [&](const char* flag, auto& value, const char* help) {
    app.add_option(flag, value, help)->group("checkpoints");
  };
  add("--checkpoint-dir", checkpoint_folder_, "folder for checkpoints of the training");
  add("--checkpoint-every", checkpoint_every_, "iterations from one checkpoint to the next");
  add("--keep", keep_, "how many of the newest checkpoints stay (default 3)");
  app.add_flag("--resume", resume_, "go on from the newest checkpoint there, or from the start without one")
      ->group("checkpoints");
}

Result<ExecuteOptions> RunFlags::options(const Plan& plan) const {
  PIPEPLAN_CHECK(check_numbers());
  PIPEPLAN_TRY(backend, parse_word<Backend>(backend_, "--backend"));
  PIPEPLAN_TRY(saving, checkpoints(trains(backend)));
  ExecuteOptions options{.backend = backend, .warm_ups = warm_ups_, .iterations = iterations_};
  options.optimizer = {.rule = plan.state.optimizer, .learning_rate = static_cast<float>(learning_rate_)};
  options.share_cores = share_cores_;
  options.emulate_links = emulate_links_;
  options.checkpoints = saving;
  if (!partitions_.empty()) {
    if (backend != Backend::cuda)
      return bad_usage(fmt::format("--partitions means nothing for --backend {}", backend_));
    PIPEPLAN_TRY(kind, parse_word<PartitionKind>(partitions_, "--partitions"));
    options.partitions = kind;
  }
  return options;
}

Result<void> RunFlags::check_numbers() const {
  const auto at_least = [](const char* flag, std::int64_t value, std::int64_t least) -> Result<void> {
    if (value < least) return bad_usage(fmt::format("{} is {}, wanted at least {}", flag, value, least));
    return {};
  };
  PIPEPLAN_CHECK(at_least("--iterations", iterations_, 1));
  PIPEPLAN_CHECK(at_least("--warm-ups", warm_ups_, 1));
  PIPEPLAN_CHECK(at_least("--checkpoint-every", checkpoint_every_, 0));
  PIPEPLAN_CHECK(at_least("--keep", keep_, 0));
  if (!(learning_rate_ >= 0 && learning_rate_ <= 1e6))
    return bad_usage(fmt::format("--learning-rate is {}, wanted 0 to 1000000", learning_rate_));
  return {};
}

Result<std::optional<CheckpointOptions>> RunFlags::checkpoints(bool trains) const {
  if (checkpoint_folder_.empty()) {
    if (checkpoint_every_ > 0 || keep_ > 0 || resume_)
      return bad_usage("--checkpoint-every, --keep and --resume need a folder",
                       "name it: --checkpoint-dir DIR");
    return std::nullopt;
  }
  if (!trains) return bad_usage(fmt::format("--backend {} trains nothing to checkpoint", backend_));
  if (checkpoint_every_ == 0 && !resume_)
    return bad_usage("--checkpoint-dir is given, but neither --checkpoint-every nor --resume",
                     "say how often to save: --checkpoint-every 5");
  return CheckpointOptions{.folder = checkpoint_folder_,
                           .every = checkpoint_every_,
                           .keep = keep_ == 0 ? default_keep : keep_,
                           .resume = resume_};
}

}  // namespace pipeplan
