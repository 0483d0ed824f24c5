#pragma once

// Warnings are a closed list. Each carries the number that raised it and what to try; none changes a result.

#include <array>
#include <string>

#include "models/base/spelling.hpp"

namespace pipeplan {

enum class WarningCode {
  dominant_layer,     // one layer holds over 90 % of all forward time, far above its backward
  unit_suspect,       // a value is over 1000 times its neighbours
  few_micro_batches,  // fewer micro-batches than stages: most of the pipeline idles
  small_micro_batch,  // micro-batch size below 4 (GPipe's advice)
  transfer_bound,     // transfers above 30 % of the time
  assumed_machine,    // no cluster given
  branching_model,    // the proof covers contiguous splits of the given order only
  indivisible_layer,  // one layer alone sets the slowest stage: more stages cannot help
  tied_parameters,    // copies of one tensor on several stages
  busy_machine,       // the load guard saw other work on the cores
  stale_profile,      // --force went on although the digests differ
  cupti_unavailable,  // GPU times come from events in the stream, not from the kernels themselves
  unattributed_work,  // kernels that no layer launched
  noisy_times,        // the spread of a layer's times is above 5 %
  shared_gpu,         // plain streams: stages take SMs from each other
};

constexpr auto spellings(WarningCode) {
  using enum WarningCode;
  return std::to_array<Spelling<WarningCode>>({{dominant_layer, "dominant-layer"},
                                               {unit_suspect, "unit-suspect"},
                                               {few_micro_batches, "few-micro-batches"},
                                               {small_micro_batch, "small-micro-batch"},
                                               {transfer_bound, "transfer-bound"},
                                               {assumed_machine, "assumed-machine"},
                                               {branching_model, "branching-model"},
                                               {indivisible_layer, "indivisible-layer"},
                                               {tied_parameters, "tied-parameters"},
                                               {busy_machine, "busy-machine"},
                                               {stale_profile, "stale-profile"},
                                               {cupti_unavailable, "cupti-unavailable"},
                                               {unattributed_work, "unattributed-work"},
                                               {noisy_times, "noisy-times"},
                                               {shared_gpu, "shared-gpu"}});
}

struct Warning {
  WarningCode code;
  std::string message;  // with the number that raised it
  std::string hint;     // what to try, may be empty
};

}  // namespace pipeplan
