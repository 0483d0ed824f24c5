#pragma once

// Bodies of ReLU and GELU, one scalar each: see kernel_body.hpp.

#include "models/layers/cuda/kernel_body.hpp"

namespace pipeplan {

struct Relu {
  const float* input;
  float* output;
  PIPEPLAN_DEVICE void operator()(std::int64_t i) const { output[i] = input[i] > 0 ? input[i] : 0.0F; }
};

struct ReluBackward {
  const float* input;
  const float* grad_output;
  float* grad_input;
  PIPEPLAN_DEVICE void operator()(std::int64_t i) const {
    grad_input[i] = input[i] > 0 ? grad_output[i] : 0.0F;
  }
};

// The tanh form as x / (1 + exp(-2u)) with 2u = x (linear + cubic x^2); 2 sqrt(2/pi) = 1.5957691216...
constexpr float gelu_linear = 1.5957691216057307118F;
constexpr float gelu_cubic = static_cast<float>(0.044715 * 1.5957691216057307118);

PIPEPLAN_DEVICE inline float gelu_logistic(float x) {
  return 1 / (1 + expf(-x * (gelu_linear + gelu_cubic * x * x)));
}

struct Gelu {
  const float* input;
  float* output;
  PIPEPLAN_DEVICE void operator()(std::int64_t i) const { output[i] = input[i] * gelu_logistic(input[i]); }
};

// dx = dy (s + x s (1 - s) (2u)')
struct GeluBackward {
  const float* input;
  const float* grad_output;
  float* grad_input;
  PIPEPLAN_DEVICE void operator()(std::int64_t i) const {
    const float x = input[i], s = gelu_logistic(x);
    const float slope = gelu_linear + 3 * gelu_cubic * x * x;
    grad_input[i] = grad_output[i] * s * (1 + x * (1 - s) * slope);
  }
};

}  // namespace pipeplan
