// Every kind of layer on the GPU against the CPU's, at sizes that fill no block or tile evenly and at some
// that a network has.

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "tests/gpu/queues.hpp"
#include "tests/models/layers/layer_run.hpp"
#include "tests/models/layers/sample_layers.hpp"

namespace pipeplan::test {
namespace {

using Floats = std::vector<float>;

struct LayerInputs {
  Floats parameters, input, targets, gradient;
};

struct Step {
  Floats output, grad_input, grad_parameters;  // of two backwards for the weights
  friend bool operator==(const Step&, const Step&) = default;
};

LayerInputs inputs_for(const LayerRun<float>& run, std::uint64_t seed) {
  Random random(seed);
  LayerInputs inputs;
  inputs.parameters = random_values<float>(run.layer->parameter_buffer_count(), random);
  inputs.input = random_input(run, random);
  inputs.targets = random_targets(run, random);
  inputs.gradient = random_values<float>(run.layer->output_count(run.batch), random);
  return inputs;
}

Step step_on_cpu(LayerRun<float>& run, const LayerInputs& inputs) {
  run.parameters.set(inputs.parameters);
  Step step;
  step.output = run.forward(inputs.input, inputs.targets);
  step.grad_input = run.backward_input(inputs.gradient);
  run.backward_weight();
  step.grad_parameters = run.backward_weight();
  return step;
}

// What a layer must not rely on is NaN.
Floats unknown(std::int64_t count) {
  return Floats(static_cast<std::size_t>(std::max<std::int64_t>(count, 1)),
                std::numeric_limits<float>::quiet_NaN());
}

void put(const Floats& values, std::int64_t offset, Floats& into) {
  std::copy(values.begin(), values.end(), into.begin() + offset);
}

Floats first(const Tensor& tensor, std::int64_t count) {
  Floats values = tensor.values();
  values.resize(static_cast<std::size_t>(count));
  return values;
}

Floats filled_stash(const RunnableLayer<float>& layer, std::int64_t batch, const LayerInputs& inputs) {
  Floats stash = unknown(layer.stash_count(batch));
  put(inputs.input, 0, stash);
  put(inputs.targets, layer.target_offset(batch), stash);
  return stash;
}

Step step_on_gpu(GpuQueue& queue, const LayerSpec& spec, std::int64_t batch, const LayerInputs& inputs,
                 bool wants_grad_input = true) {
  const auto made = queue.make_layer(spec, "test");
  REQUIRE(made.has_value());
  const RunnableLayer<float>& layer = **made;
  Tensor parameters(queue, inputs.parameters.empty() ? unknown(1) : inputs.parameters);
  Tensor stash(queue, filled_stash(layer, batch, inputs));
  Tensor output(queue, unknown(aligned_count<float>(layer.output_count(batch))));
  Tensor grad_output(queue, inputs.gradient);
  Tensor grad_input(queue, unknown(aligned_count<float>(layer.input_count(batch))));
  Tensor deferred(queue, unknown(layer.deferred_count(batch)));
  Tensor scratch(queue, unknown(layer.scratch_count(batch)));
  Tensor grad_parameters(queue, Floats(std::max<std::size_t>(inputs.parameters.size(), 1), 0.0F));
  layer.forward(batch, parameters.place(), stash.place(), output.place(), scratch.place());
  layer.backward_input(batch, parameters.place(), stash.place(), grad_output.place(),
                       wants_grad_input ? grad_input.place() : nullptr, deferred.place(), scratch.place());
  for (int i = 0; i < 2; ++i)
    layer.backward_weight(batch, parameters.place(), stash.place(), grad_output.place(), deferred.place(),
                          grad_parameters.place(), scratch.place());
  finish(queue);
  return {first(output, layer.output_count(batch)),
          wants_grad_input ? first(grad_input, layer.input_count(batch)) : Floats{},
          first(grad_parameters, layer.parameter_buffer_count())};
}

// In the 2-norm; NaN where a value is.
double relative_difference(const Floats& seen, const Floats& wanted) {
  REQUIRE(seen.size() == wanted.size());
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    difference += std::pow(static_cast<double>(seen[i]) - static_cast<double>(wanted[i]), 2);
    size += std::pow(static_cast<double>(wanted[i]), 2);
  }
  return std::sqrt(difference / std::max(size, 1e-30));
}

std::vector<SampleLayer> larger_layers() {
  return {{"embedding of few tokens", sample_embedding(100, 13, 300)},
          {"embedding of many tokens", sample_embedding(300, 5000, 64)},
          {"linear 257 to 129", sample_part(LayerKind::linear, 65, 257, 129)},
          {"linear 512 to 2048", sample_part(LayerKind::linear, 128, 512, 2048)},
          {"linear to one", sample_part(LayerKind::linear, 33, 100, 1)},
          {"linear from one", sample_part(LayerKind::linear, 33, 1, 100)},
          {"linear on one row", sample_part(LayerKind::linear, 1, 64, 48)},
          {"gelu", sample_part(LayerKind::gelu, 100, 1001, 1001)},
          {"relu", sample_part(LayerKind::relu, 100, 1001, 1001)},
          {"layer_norm of 1025", sample_part(LayerKind::layer_norm, 17, 1025, 1025)},
          {"layer_norm of 768", sample_part(LayerKind::layer_norm, 300, 768, 768)},
          {"layer_norm of 5000", sample_part(LayerKind::layer_norm, 2, 5000, 5000)},
          {"attention of 65 rows", sample_attention(65, 99, 3)},
          {"attention of 128 rows", sample_attention(128, 256, 4)},
          {"attention of one row", sample_attention(1, 8, 2)},
          {"attention with heads of one", sample_attention(40, 5, 5)},
          {"attention block", sample_attention_block(64, 128, 4)},
          {"mlp block", sample_mlp_block(64, 128)},
          {"cross_entropy of 1003", sample_part(LayerKind::cross_entropy, 37, 1003, 0)},
          {"cross_entropy of 50257", sample_part(LayerKind::cross_entropy, 16, 50257, 0)},
          {"cross_entropy of many rows", sample_part(LayerKind::cross_entropy, 3000, 3, 0)},
          {"mean_squared_error", sample_part(LayerKind::mean_squared_error, 37, 1003, 0)}};
}

void check_against_cpu(GpuQueue& queue, const SampleLayer& sample, std::int64_t batch) {
  INFO(sample.name, ", batch ", batch, ", seed 21");
  LayerRun<float> run(sample.spec, batch);
  const LayerInputs inputs = inputs_for(run, 21);
  const Step wanted = step_on_cpu(run, inputs);
  const Step seen = step_on_gpu(queue, sample.spec, batch, inputs);
  CHECK(relative_difference(seen.output, wanted.output) <= 1e-5);
  CHECK(relative_difference(seen.grad_input, wanted.grad_input) <= 1e-5);
  CHECK(relative_difference(seen.grad_parameters, wanted.grad_parameters) <= 1e-5);
}

}  // namespace

TEST_CASE("gpu layers: small ones of odd sizes give what the CPU gives") {
  const auto queue = open_queue();
  for (const SampleLayer& sample : sample_layers())
    for (const std::int64_t batch : {1, 3}) check_against_cpu(*queue, sample, batch);
}

TEST_CASE("gpu layers: larger ones give what the CPU gives") {
  const auto queue = open_queue();
  for (const SampleLayer& sample : larger_layers()) check_against_cpu(*queue, sample, 2);
}

TEST_CASE("gpu layers: a step twice on the same inputs gives the same bits") {
  const auto queue = open_queue();
  for (const auto& samples : {sample_layers(), larger_layers()})
    for (const SampleLayer& sample : samples) {
      INFO(sample.name, ", seed 22");
      const LayerInputs inputs = inputs_for(LayerRun<float>(sample.spec, 2), 22);
      const Step once = step_on_gpu(*queue, sample.spec, 2, inputs);
      CHECK(once == step_on_gpu(*queue, sample.spec, 2, inputs));
    }
}

TEST_CASE("gpu layers: without a wish for the input gradient the parameter gradient is the same") {
  const auto queue = open_queue();
  for (const SampleLayer& sample : sample_layers()) {
    INFO(sample.name, ", seed 23");
    const LayerInputs inputs = inputs_for(LayerRun<float>(sample.spec, 2), 23);
    const Step wanted = step_on_gpu(*queue, sample.spec, 2, inputs);
    CHECK(step_on_gpu(*queue, sample.spec, 2, inputs, false).grad_parameters == wanted.grad_parameters);
  }
}

TEST_CASE(
    "gpu layers: sizes are whole alignment units, and those of parameters, input and output are the CPU's") {
  const auto queue = open_queue();
  for (const SampleLayer& sample : sample_layers()) {
    INFO(sample.name);
    const LayerRun<float> run(sample.spec, 3);
    const auto made = queue->make_layer(sample.spec, "test");
    REQUIRE(made.has_value());
    const RunnableLayer<float>& layer = **made;
    CHECK(layer.parameter_count() == run.layer->parameter_count());
    CHECK(layer.parameter_buffer_count() == run.layer->parameter_buffer_count());
    CHECK(layer.input_count(3) == run.layer->input_count(3));
    CHECK(layer.output_count(3) == run.layer->output_count(3));
    CHECK(layer.target_count(3) == run.layer->target_count(3));
    for (const std::int64_t count :
         {layer.stash_count(3), layer.deferred_count(3), layer.scratch_count(3), layer.target_offset(3)})
      CHECK(count % aligned_count<float>(1) == 0);
  }
}

TEST_CASE("gpu layers: a layer that makes no sense is refused by the place of its inner layer") {
  const auto queue = open_queue();
  LayerSpec block = sample_attention_block(3, 4, 2);
  block.inner[2].heads = 3;
  const auto made = queue->make_layer(block, "l");
  REQUIRE(!made);
  CHECK(made.error().where == "l/inner/2");
}

}  // namespace pipeplan::test
