#pragma once

// How gradients become new parameters. Each rule keeps whole buffers of state beside the parameters: none for
// plain gradient descent, one for momentum, two for Adam.

#include <array>
#include <cstdint>

#include "models/base/spelling.hpp"
#include "models/layers/arithmetic.hpp"

namespace pipeplan {

// Buffers of the parameters' size, as weight + gradient + state: none 1 + 0 + 0, sgd 1 + 1 + 0, momentum
// 1 + 1 + 1, adam 1 + 1 + 2.
enum class OptimizerRule { none, sgd, momentum, adam };

constexpr auto spellings(OptimizerRule) {
  using enum OptimizerRule;
  return std::to_array<Spelling<OptimizerRule>>(
      {{none, "none"}, {sgd, "sgd"}, {momentum, "momentum"}, {adam, "adam"}});
}

struct Optimizer {
  OptimizerRule rule = OptimizerRule::sgd;
  float learning_rate = 0.1F;
  float momentum = 0.9F;
  float beta1 = 0.9F;  // Adam: Kingma and Ba 2015, algorithm 1
  float beta2 = 0.999F;
  float epsilon = 1e-8F;
};

// State buffers of the parameters' size: 0, 0, 1 or 2.
std::int64_t state_buffer_count(OptimizerRule rule);

// Adam's update in step `number`, with the bias corrections in it: step_size = rate sqrt(1 - beta2^number) /
// (1 - beta1^number), epsilon_hat = epsilon sqrt(1 - beta2^number), computed in double.
AdamUpdate adam_update(const Optimizer& optimizer, std::int64_t number);

// Step `number` (from 1: Adam's bias correction depends on it) on `count` parameters in host memory; the
// gradients are 0 afterwards. `state`: state_buffer_count * count scalars, 0 before the first step.
void optimizer_step(const Optimizer& optimizer, std::int64_t number, std::int64_t count, float* parameters,
                    float* gradients, float* state);

}  // namespace pipeplan
