#include <doctest/doctest.h>

#include <cmath>
#include <numeric>

#include "tests/models/layers/layer_run.hpp"
#include "tests/models/layers/sample_layers.hpp"

namespace pipeplan::test {
namespace {

using Values = std::vector<double>;

// Fourth-order central differences with step e: truncation about e^4, rounding about 1e-16 / e of the
// function's size. With 1e-4 both stay below 1e-11 of the gradient; the bound leaves room for cancellation.
constexpr double step = 1e-4;
constexpr double bound = 1e-7;

double norm(const Values& values) {
  return std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
}

double relative_difference(const Values& seen, const Values& wanted) {
  Values difference = seen;
  for (std::size_t i = 0; i < wanted.size(); ++i) difference[i] -= wanted[i];
  return norm(difference) / std::max(norm(wanted), 1e-3);
}

// A layer as a function of its inputs and parameters with one number as its value: the outputs, each times a
// factor.
class Function {
 public:
  Function(const LayerSpec& spec, Random& random)
      : run_(spec, 2),
        input_(random_input(run_, random)),
        targets_(random_targets(run_, random)),
        factors_(random_values<double>(run_.layer->output_count(2), random)) {
    if (spec.kind == LayerKind::relu)
      for (double& x : input_) x += x < 0 ? -0.1 : 0.1;  // no kink within a step
    for (std::int64_t i = 0; i < run_.layer->parameter_buffer_count(); ++i)
      if (is_learned(i)) run_.parameters.data()[i] += 0.5 * random_fraction(random);
  }

  double value() {
    const Values output = run_.forward(input_, targets_);
    return std::inner_product(output.begin(), output.end(), factors_.begin(), 0.0);
  }

  Values gradient_for_input() {
    value();
    return run_.backward_input(factors_);
  }
  Values gradient_for_parameters() {
    gradient_for_input();
    return run_.backward_weight();
  }

  Values differences_for_input() {
    Values slopes;
    for (double& x : input_) slopes.push_back(slope(x));
    return slopes;
  }
  Values differences_for_parameters() {
    Values slopes;
    for (std::int64_t i = 0; i < run_.layer->parameter_buffer_count(); ++i)
      slopes.push_back(slope(run_.parameters.data()[i]));
    return slopes;
  }

 private:
  // Padding is 0 and gets no gradient; a learned value gets one from random data.
  bool is_learned(std::int64_t i) {
    if (learned_.empty()) {
      gradient_for_parameters();
      learned_ = run_.grad_parameters.first(run_.layer->parameter_buffer_count());
      run_.grad_parameters.fill(0);
    }
    return learned_[static_cast<std::size_t>(i)] != 0;
  }

  // Central differences of fourth order: what is left of the step is step^4.
  double slope(double& x) {
    const double before = x;
    const auto at = [&](double offset) {
      x = before + offset;
      return value();
    };
    const double near = at(step) - at(-step);
    const double far = at(2 * step) - at(-2 * step);
    x = before;
    return (8 * near - far) / (12 * step);
  }

  LayerRun<double> run_;
  Values input_, targets_, factors_, learned_;
};

}  // namespace

TEST_CASE("layers: the gradient of every kind for its input agrees with central differences") {
  for (const SampleLayer& sample : sample_layers()) {
    if (sample.spec.kind == LayerKind::embedding) continue;
    INFO(sample.name, ", seed 5");
    Random random(5);
    Function function(sample.spec, random);
    CHECK(relative_difference(function.gradient_for_input(), function.differences_for_input()) < bound);
  }
}

TEST_CASE("layers: the gradient of every kind for its parameters agrees with central differences") {
  for (const SampleLayer& sample : sample_layers()) {
    INFO(sample.name, ", seed 6");
    Random random(6);
    Function function(sample.spec, random);
    CHECK(relative_difference(function.gradient_for_parameters(), function.differences_for_parameters()) <
          bound);
  }
}

}  // namespace pipeplan::test
