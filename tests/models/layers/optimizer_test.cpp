#include "models/layers/optimizer.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "tests/support/random.hpp"

namespace pipeplan::test {
namespace {

using Floats = std::vector<float>;

// Parameters with the state of one rule.
struct Training {
  Training(const Optimizer& rules, Floats values)
      : optimizer(rules),
        parameters(std::move(values)),
        gradients(parameters.size()),
        state(parameters.size() * static_cast<std::size_t>(state_buffer_count(rules.rule))) {}

  void step(const Floats& gradient) {
    gradients = gradient;
    optimizer_step(optimizer, ++number, static_cast<std::int64_t>(parameters.size()), parameters.data(),
                   gradients.data(), state.data());
  }

  Optimizer optimizer;
  Floats parameters, gradients, state;
  std::int64_t number = 0;
};

// Algorithm 1 of Kingma and Ba 2015 as it stands there, for one parameter in double.
struct PlainAdam {
  double rate, beta1, beta2, epsilon;
  double parameter = 0, first = 0, second = 0;
  int steps = 0;

  void step(double gradient) {
    ++steps;
    first = beta1 * first + (1 - beta1) * gradient;
    second = beta2 * second + (1 - beta2) * gradient * gradient;
    const double corrected_first = first / (1 - std::pow(beta1, steps));
    const double corrected_second = second / (1 - std::pow(beta2, steps));
    parameter -= rate * corrected_first / (std::sqrt(corrected_second) + epsilon);
  }
};

double random_gradient(Random& random) { return static_cast<double>(random.between(-1000, 1000)) / 256; }

}  // namespace

TEST_CASE("optimizer: the state takes no, one or two buffers of the parameters size") {
  CHECK(state_buffer_count(OptimizerRule::none) == 0);
  CHECK(state_buffer_count(OptimizerRule::sgd) == 0);
  CHECK(state_buffer_count(OptimizerRule::momentum) == 1);
  CHECK(state_buffer_count(OptimizerRule::adam) == 2);
}

TEST_CASE("optimizer: plain descent moves against the gradient, which starts again from 0") {
  Training training({.rule = OptimizerRule::sgd, .learning_rate = 0.5F}, {1, 2, 3});
  training.step({10, -20, 0});
  CHECK(training.parameters == Floats{1 - 0.5F * 10, 2 + 0.5F * 20, 3});
  CHECK(training.gradients == Floats{0, 0, 0});
}

TEST_CASE("optimizer: the rule none moves nothing, and its gradient starts again from 0 too") {
  Training training({.rule = OptimizerRule::none}, {1, 2});
  training.step({10, -20});
  CHECK(training.parameters == Floats{1, 2});
  CHECK(training.gradients == Floats{0, 0});
}

TEST_CASE("optimizer: momentum carries part of the last velocity on, by hand over two steps") {
  Training training({.rule = OptimizerRule::momentum, .learning_rate = 0.5F, .momentum = 0.25F}, {100, 0});
  training.step({8, 0});
  CHECK(training.state == Floats{8, 0});
  CHECK(training.parameters == Floats{100 - 0.5F * 8, 0});
  training.step({4, 2});
  CHECK(training.state == Floats{0.25F * 8 + 4, 2});
  CHECK(training.parameters == Floats{100 - 0.5F * 8 - 0.5F * (0.25F * 8 + 4), -0.5F * 2});
  CHECK(training.gradients == Floats{0, 0});
}

TEST_CASE("optimizer: without momentum the velocity is the gradient, and the step that of plain descent") {
  INFO("seed 21");
  Random random(21);
  Training plain({.rule = OptimizerRule::sgd, .learning_rate = 0.125F}, {1, 2});
  Training heavy({.rule = OptimizerRule::momentum, .learning_rate = 0.125F, .momentum = 0}, {1, 2});
  for (int i = 0; i < 20; ++i) {
    const Floats gradient{static_cast<float>(random_gradient(random)),
                          static_cast<float>(random_gradient(random))};
    plain.step(gradient);
    heavy.step(gradient);
    CHECK(heavy.parameters == plain.parameters);
    CHECK(heavy.state == gradient);
  }
}

TEST_CASE("optimizer: the first step of Adam moves every parameter by the rate, whatever its gradient") {
  // m / (1 - beta1) = g and v / (1 - beta2) = g^2, so the step is rate g / (|g| + epsilon).
  Training training({.rule = OptimizerRule::adam, .learning_rate = 0.01F}, {0, 0, 0, 0, 0});
  training.step({1e-3F, -0.5F, 7, -1e3F, 0});
  const Floats signs = {-1, 1, -1, 1, 0};
  for (std::size_t i = 0; i < signs.size(); ++i)
    CHECK(training.parameters[i] == doctest::Approx(0.01 * static_cast<double>(signs[i])).epsilon(1e-4));
  CHECK(training.parameters[4] == 0);
  CHECK(training.gradients == Floats{0, 0, 0, 0, 0});
}

TEST_CASE("optimizer: two steps of Adam by hand, with an epsilon that is felt") {
  Training training(
      {.rule = OptimizerRule::adam, .learning_rate = 0.5F, .beta1 = 0.5F, .beta2 = 0.75F, .epsilon = 1}, {3});
  training.step({4});
  CHECK(training.state == Floats{0.5F * 4, 0.25F * 4 * 4});
  // Corrected: 2 / (1 - 0.5) = 4 and 4 / (1 - 0.75) = 16.
  const double after_one = 3 - 0.5 * 4 / (std::sqrt(16.0) + 1);
  CHECK(training.parameters[0] == doctest::Approx(after_one).epsilon(1e-6));
  training.step({8});
  const double first = 0.5 * 2 + 0.5 * 8, second = 0.75 * 4 + 0.25 * 8 * 8;
  CHECK(training.state == Floats{static_cast<float>(first), static_cast<float>(second)});
  const double corrected_first = first / (1 - 0.5 * 0.5), corrected_second = second / (1 - 0.75 * 0.75);
  CHECK(training.parameters[0] ==
        doctest::Approx(after_one - 0.5 * corrected_first / (std::sqrt(corrected_second) + 1)).epsilon(1e-6));
}

TEST_CASE("optimizer: a hundred steps of Adam follow algorithm 1 of its paper in double") {
  INFO("seed 22");
  Random random(22);
  const Optimizer optimizer{.rule = OptimizerRule::adam, .learning_rate = 0.01F};
  constexpr std::size_t count = 7;
  Training training(optimizer, Floats(count));
  std::vector<PlainAdam> oracle(count, {.rate = static_cast<double>(optimizer.learning_rate),
                                        .beta1 = static_cast<double>(optimizer.beta1),
                                        .beta2 = static_cast<double>(optimizer.beta2),
                                        .epsilon = static_cast<double>(optimizer.epsilon)});
  for (int step = 0; step < 100; ++step) {
    Floats gradient;
    for (PlainAdam& one : oracle) {
      gradient.push_back(static_cast<float>(random_gradient(random)));
      one.step(static_cast<double>(gradient.back()));
    }
    training.step(gradient);
    // Each of `step` moves of at most about the rate is rounded a few times.
    for (std::size_t i = 0; i < count; ++i)
      CHECK(std::abs(static_cast<double>(training.parameters[i]) - oracle[i].parameter) < 0.01 * 1e-4);
  }
}

TEST_CASE("optimizer: the update of Adam carries the bias corrections of its step") {
  const Optimizer optimizer{
      .rule = OptimizerRule::adam, .learning_rate = 2, .beta1 = 0.5F, .beta2 = 0.75F, .epsilon = 4};
  const AdamUpdate third = adam_update(optimizer, 3);
  const double root = std::sqrt(1 - 0.75 * 0.75 * 0.75);
  CHECK(third.step_size == doctest::Approx(2 * root / (1 - 0.5 * 0.5 * 0.5)).epsilon(1e-6));
  CHECK(third.epsilon_hat == doctest::Approx(4 * root).epsilon(1e-6));
  CHECK(third.beta1 == 0.5F);
  CHECK(third.beta2 == 0.75F);
}

}  // namespace pipeplan::test
