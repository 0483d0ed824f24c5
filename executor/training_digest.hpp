#pragma once

// Which training is it? Two runs with equal digests compute the same numbers: bit for bit with the same
// kernels.

#include <string>

#include "executor/executor.hpp"

namespace pipeplan {

// Of the network, its cuts, replicas and copies, the order of ops (which is an order of summation),
// micro-batches, optimizer and seed. Links, devices, recomputation and times are not in it.
std::string training_digest(const ModelGraph& model, const Schedule& schedule, const Plan& plan,
                            const ExecuteOptions& options);

}  // namespace pipeplan
