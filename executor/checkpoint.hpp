#pragma once

// Checkpoints of a training run: per stage its parameters and optimizer state, and a manifest
// (pipeplan.checkpoint/1) that says what of, after which iteration, with the digest of every file. One folder
// per checkpoint, `iteration-00000012`, filled under another name, flushed to the disk and then renamed: it
// is whole or not there, at whatever moment the process dies. What a killed run left unfinished is removed by
// the next save.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "executor/device.hpp"
#include "models/base/result.hpp"

namespace pipeplan {

struct CheckpointOptions {
  std::string folder;
  std::int64_t every = 0;  // iterations; 0: none is written
  std::int64_t keep = 3;   // the newest
  bool resume = false;     // go on from the newest, or from the start where there is none
};

struct Checkpoint {
  std::string training_digest;      // of all that decides what the training computes
  std::int64_t iterations = 0;      // done
  std::vector<double> mean_losses;  // of those iterations
  PerId<StageId, StageValues> stages;
};

// Removes all but the `keep` newest once `checkpoint` is safe.
Result<void> save_checkpoint(const Checkpoint& checkpoint, const CheckpointOptions& options);

// What a run starts from: the newest checkpoint if it resumes and there is one. Refused: a folder that holds
// checkpoints already without `resume`, and a newest one that is damaged or of another training; nothing is
// passed over in silence.
Result<std::optional<Checkpoint>> newest_checkpoint(const CheckpointOptions& options,
                                                    const std::string& training_digest);

}  // namespace pipeplan
