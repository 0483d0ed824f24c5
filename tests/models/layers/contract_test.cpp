// What layer.hpp promises of every kind of layer.

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "tests/models/layers/layer_run.hpp"
#include "tests/models/layers/sample_layers.hpp"

namespace pipeplan::test {
namespace {

using Values = std::vector<double>;

bool same_bits(const Values& a, const Values& b) {
  if (a.size() != b.size()) return false;
  return a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

Values joined(Values a, const Values& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

double largest_difference(const Values& a, const Values& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

bool is_padding_zero(const LayerRun<double>& run, const AlignedBuffer<double>& buffer) {
  std::int64_t others = 0;
  for (std::int64_t i = 0; i < run.layer->parameter_buffer_count(); ++i) others += buffer.data()[i] != 0;
  return others <= run.layer->parameter_count();
}

struct Step {
  Values output, grad_input, grad_parameters;
};

Step run_step(LayerRun<double>& run, const Values& input, const Values& targets, const Values& gradient) {
  Step step;
  step.output = run.forward(input, targets);
  step.grad_input = run.backward_input(gradient);
  step.grad_parameters = run.backward_weight();
  return step;
}

}  // namespace

TEST_CASE("layers: sizes of all buffers are whole alignment units and hold what they must") {
  for (const SampleLayer& sample : sample_layers()) {
    INFO(sample.name);
    const LayerRun<float> run(sample.spec, 3);
    const auto& layer = *run.layer;
    const std::int64_t unit = 64 / 4;
    CHECK(layer.input_count(3) == 3 * sample.spec.rows_per_sample * sample.spec.inputs);
    CHECK(layer.output_count(3) ==
          (is_loss(sample.spec) ? 1 : 3 * sample.spec.rows_per_sample * sample.spec.outputs));
    CHECK(layer.stash_count(3) >= layer.input_count(3) + layer.target_count(3));
    CHECK(layer.parameter_buffer_count() >= layer.parameter_count());
    for (const std::int64_t count : {layer.parameter_buffer_count(), layer.stash_count(3),
                                     layer.deferred_count(3), layer.scratch_count(3), layer.target_offset(3)})
      CHECK(count % unit == 0);
  }
}

TEST_CASE("layers: a step twice on the same inputs gives the same bits") {
  for (const SampleLayer& sample : sample_layers()) {
    INFO(sample.name, ", seed 9");
    Random random(9);
    LayerRun<double> first(sample.spec, 2), second(sample.spec, 2);
    const Values input = random_input(first, random), targets = random_targets(first, random);
    const Values gradient = random_values<double>(first.layer->output_count(2), random);
    const Step a = run_step(first, input, targets, gradient), b = run_step(second, input, targets, gradient);
    CHECK(same_bits(a.output, b.output));
    CHECK(same_bits(a.grad_input, b.grad_input));
    CHECK(same_bits(a.grad_parameters, b.grad_parameters));
  }
}

TEST_CASE("layers: backward_weight adds, so twice gives twice the gradient") {
  for (const SampleLayer& sample : sample_layers()) {
    INFO(sample.name, ", seed 10");
    Random random(10);
    LayerRun<double> run(sample.spec, 2);
    const Values input = random_input(run, random), targets = random_targets(run, random);
    const Values gradient = random_values<double>(run.layer->output_count(2), random);
    const Values once = run_step(run, input, targets, gradient).grad_parameters;
    CHECK(is_padding_zero(run, run.grad_parameters));
    Values doubled = once;
    for (double& value : doubled) value *= 2;
    CHECK(largest_difference(run.backward_weight(), doubled) < 1e-12);
  }
}

TEST_CASE("layers: a batch of two is two batches of one") {
  for (const SampleLayer& sample : sample_layers()) {
    INFO(sample.name, ", seed 11");
    Random random(11);
    LayerRun<double> first(sample.spec, 1), second(sample.spec, 1), both(sample.spec, 2);
    const Values input1 = random_input(first, random), input2 = random_input(first, random);
    const Values targets1 = random_targets(first, random), targets2 = random_targets(first, random);
    const std::int64_t outputs = first.layer->output_count(1);
    const Values gradient1 = random_values<double>(outputs, random);
    const Values gradient2 = is_loss(sample.spec) ? gradient1 : random_values<double>(outputs, random);
    const Step step1 = run_step(first, input1, targets1, gradient1);
    const Step step2 = run_step(second, input2, targets2, gradient2);

    Values output = joined(step1.output, step2.output), gradient = joined(gradient1, gradient2);
    if (is_loss(sample.spec)) {  // the mean of both; each row counts half
      output = {(step1.output[0] + step2.output[0]) / 2};
      gradient = {2 * gradient1[0]};
    }
    Values summed = step1.grad_parameters;
    for (std::size_t i = 0; i < summed.size(); ++i) summed[i] += step2.grad_parameters[i];

    const Step step = run_step(both, joined(input1, input2), joined(targets1, targets2), gradient);
    CHECK(largest_difference(step.output, output) < 1e-12);
    CHECK(largest_difference(step.grad_input, joined(step1.grad_input, step2.grad_input)) < 1e-12);
    CHECK(largest_difference(step.grad_parameters, summed) < 1e-12);
  }
}

TEST_CASE("layers: without a wish for the input gradient the parameter gradient is the same") {
  for (const SampleLayer& sample : sample_layers()) {
    INFO(sample.name, ", seed 12");
    Random random(12);
    LayerRun<double> run(sample.spec, 2);
    const Values input = random_input(run, random), targets = random_targets(run, random);
    const Values gradient = random_values<double>(run.layer->output_count(2), random);
    const Values wanted = run_step(run, input, targets, gradient).grad_parameters;

    run.grad_parameters.fill(0);
    run.forward(input, targets);
    run.deferred.forget();
    run.layer->backward_input(2, run.parameters.data(), run.stash.data(), run.grad_output.data(), nullptr,
                              run.deferred.data(), run.scratch.data());
    CHECK(same_bits(run.backward_weight(), wanted));
  }
}

TEST_CASE("layers: initial parameters depend on the seed alone, and their padding is 0") {
  for (const SampleLayer& sample : sample_layers()) {
    INFO(sample.name);
    LayerRun<double> run(sample.spec, 1);
    const std::int64_t count = run.layer->parameter_buffer_count();
    const auto initial = [&](std::uint64_t seed) {
      run.parameters.forget();
      run.layer->initialize(run.parameters.data(), seed);
      return run.parameters.first(count);
    };
    const Values first = initial(7);
    CHECK(is_padding_zero(run, run.parameters));
    CHECK(same_bits(first, initial(7)));
    const bool is_random = count > 0 && sample.spec.kind != LayerKind::layer_norm;
    CHECK(same_bits(first, initial(8)) == !is_random);
  }
}

TEST_CASE(
    "layers: initial weights of a linear layer lie within sqrt(3/inputs), around 0, and the bias is 0") {
  LayerRun<double> run(sample_part(LayerKind::linear, 1, 100, 100), 1);
  double sum = 0, largest = 0;
  for (const double weight : run.parameters.first(100 * 100)) {
    sum += weight;
    largest = std::max(largest, std::abs(weight));
  }
  CHECK(largest <= std::sqrt(3 / 100.0));
  CHECK(largest > 0.99 * std::sqrt(3 / 100.0));
  // The mean of 10^4 uniform values within sqrt(3/100) has deviation 0.1 / sqrt(10^4); five of them are
  // allowed.
  CHECK(std::abs(sum / 1e4) < 5 * 0.1 / std::sqrt(1e4));
  CHECK(run.parameters.data()[100 * 100] == 0);
}

TEST_CASE("layers: the first values of seed 1 are those of std::mt19937_64, whatever the library") {
  // The first outputs of std::mt19937_64(1), upper 53 bits, mapped to [-1, 1), times sqrt(3 / 1 input).
  LayerRun<double> run(sample_part(LayerKind::linear, 1, 1, 2), 1);
  std::mt19937_64 engine(1);
  for (std::int64_t i = 0; i < 2; ++i)
    CHECK(run.parameters.data()[i] ==
          std::sqrt(3.0) * (2 * std::ldexp(static_cast<double>(engine() >> 11), -53) - 1));
}

TEST_CASE("layers: the inner layers of a residual start from different values") {
  const LayerSpec linear = sample_part(LayerKind::linear, 1, 4, 4);
  LayerRun<double> run(sample_residual(1, 4, {linear, linear}), 1);
  CHECK(run.parameters.data()[0] !=
        run.parameters.data()[aligned_count<double>(4 * 4) + aligned_count<double>(4)]);
}

TEST_CASE(
    "make_layer: sizes that make no sense are refused, with the place of the layer and the value seen") {
  LayerSpec stray_inner = sample_mlp_block(3, 4);
  stray_inner.inner[2].inputs = 15;
  LayerSpec deep = sample_residual(3, 4, {sample_attention_block(3, 4, 2)});
  deep.inner[0].inner[2].heads = 3;
  LayerSpec losing = sample_residual(3, 4, {sample_part(LayerKind::cross_entropy, 3, 4, 0)});
  LayerSpec no_words = sample_embedding(3, 0, 4);
  struct Case {
    LayerSpec spec;
    std::string where, message;
  };
  const std::int64_t most = 1 << 24;
  for (const Case& bad : std::vector<Case>{
           {sample_part(LayerKind::linear, 0, 2, 2), "l",
            "linear layer: rows_per_sample is 0, wanted 1 to 16777216"},
           {sample_part(LayerKind::linear, 1, -2, 2), "l",
            "linear layer: inputs is -2, wanted 1 to 16777216"},
           {sample_part(LayerKind::linear, 1, 2, most + 1), "l",
            "linear layer: outputs is 16777217, wanted 1 to 16777216"},
           {sample_part(LayerKind::linear, 1, most, most), "l",
            "linear layer: weight matrix is 16777216 by 16777216, wanted at most 1099511627776 scalars"},
           {sample_part(LayerKind::gelu, 1, 2, 3), "l", "gelu layer: outputs is 3, wanted 2, as the inputs"},
           {sample_part(LayerKind::mean_squared_error, 1, 2, 3), "l",
            "mean_squared_error layer: outputs is 3, wanted 0, as a loss ends the network"},
           {sample_part(LayerKind::attention, 1, 8, 4), "l",
            "attention layer: inputs is 8, wanted 12, as three times the outputs"},
           {sample_attention(3, 4, 0), "l", "attention layer: heads is 0, wanted 1 to 16777216"},
           {sample_attention(3, 4, 3), "l",
            "attention layer: heads is 3, wanted a divisor of outputs, which is 4"},
           {no_words, "l", "embedding layer: vocabulary is 0, wanted 1 to 16777216"},
           {sample_residual(3, 4, {}), "l", "residual layer: inner has no layers, wanted at least one"},
           {stray_inner, "l", "residual layer: inner inputs is 15, wanted 16, as the layer before gives"},
           {losing, "l",
            "residual layer: inner holds a layer of kind cross_entropy, which cannot stand there"},
           {deep, "l/inner/0/inner/2",
            "attention layer: heads is 3, wanted a divisor of outputs, which is 4"}}) {
    INFO(bad.message);
    const auto made = make_layer<float>(bad.spec, "l");
    REQUIRE(!made);
    CHECK(made.error().where == bad.where);
    CHECK(made.error().message == bad.message);
  }
}

}  // namespace pipeplan::test
