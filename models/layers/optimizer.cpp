#include "models/layers/optimizer.hpp"

#include <algorithm>
#include <cmath>

#include "models/base/assert.hpp"

namespace pipeplan {
namespace {

void sgd(const Optimizer& optimizer, std::int64_t count, float* parameters, const float* gradients) {
  const SgdUpdate update{.rate = optimizer.learning_rate};
  for (std::int64_t i = 0; i < count; ++i) update(parameters[i], gradients[i]);
}

void momentum(const Optimizer& optimizer, std::int64_t count, float* parameters, const float* gradients,
              float* velocities) {
  const MomentumUpdate update{.rate = optimizer.learning_rate, .momentum = optimizer.momentum};
  for (std::int64_t i = 0; i < count; ++i) update(parameters[i], gradients[i], velocities[i]);
}

void adam(const AdamUpdate& update, std::int64_t count, float* parameters, const float* gradients,
          float* state) {
  const auto square_root = [](float value) { return std::sqrt(value); };
  float* seconds = state + count;
  for (std::int64_t i = 0; i < count; ++i)
    update(parameters[i], gradients[i], state[i], seconds[i], square_root);
}

}  // namespace

std::int64_t state_buffer_count(OptimizerRule rule) {
  switch (rule) {
    case OptimizerRule::none:
    case OptimizerRule::sgd: return 0;
    case OptimizerRule::momentum: return 1;
    case OptimizerRule::adam: return 2;
  }
  PIPEPLAN_UNREACHABLE("an optimizer rule without a state");
}

AdamUpdate adam_update(const Optimizer& optimizer, std::int64_t number) {
  PIPEPLAN_ASSERT(number >= 1);
  const auto steps = static_cast<double>(number);
  const double first_share = 1 - std::pow(static_cast<double>(optimizer.beta1), steps);
  const double second_root = std::sqrt(1 - std::pow(static_cast<double>(optimizer.beta2), steps));
  return {.beta1 = optimizer.beta1,
          .beta2 = optimizer.beta2,
          .step_size =
              static_cast<float>(static_cast<double>(optimizer.learning_rate) * second_root / first_share),
          .epsilon_hat = static_cast<float>(static_cast<double>(optimizer.epsilon) * second_root)};
}

void optimizer_step(const Optimizer& optimizer, std::int64_t number, std::int64_t count, float* parameters,
                    float* gradients, float* state) {
  switch (optimizer.rule) {
    case OptimizerRule::none: break;
    case OptimizerRule::sgd: sgd(optimizer, count, parameters, gradients); break;
    case OptimizerRule::momentum: momentum(optimizer, count, parameters, gradients, state); break;
    case OptimizerRule::adam:
      adam(adam_update(optimizer, number), count, parameters, gradients, state);
      break;
  }
  std::fill_n(gradients, count, 0.0F);
}

}  // namespace pipeplan
