#pragma once

// Arithmetic that the CPU's kernels and the GPU's share, one scalar at a time. C++17 and nothing but the
// language: device compilers read it too.

#if defined(__CUDACC__)
#define PIPEPLAN_BOTH_SIDES __host__ __device__
#else
#define PIPEPLAN_BOTH_SIDES
#endif

namespace pipeplan {

// One parameter's step of plain gradient descent.
struct SgdUpdate {
  float rate;
  PIPEPLAN_BOTH_SIDES void operator()(float& parameter, float gradient) const {
    parameter -= rate * gradient;
  }
};

// Momentum (Polyak 1964) in the form of trainers: velocity = momentum velocity + gradient.
struct MomentumUpdate {
  float rate, momentum;
  PIPEPLAN_BOTH_SIDES void operator()(float& parameter, float gradient, float& velocity) const {
    velocity = momentum * velocity + gradient;
    parameter -= rate * velocity;
  }
};

// Adam (Kingma and Ba 2015, algorithm 1 in the order of the remark before section 2.1): step_size and
// epsilon_hat carry the bias corrections of this step.
struct AdamUpdate {
  float beta1, beta2, step_size, epsilon_hat;
  template<class SquareRoot>
  PIPEPLAN_BOTH_SIDES void operator()(float& parameter, float gradient, float& first, float& second,
                                      SquareRoot square_root) const {
    first = beta1 * first + (1.0F - beta1) * gradient;
    second = beta2 * second + (1.0F - beta2) * gradient * gradient;
    parameter -= step_size * first / (square_root(second) + epsilon_hat);
  }
};

}  // namespace pipeplan
