// Whole networks: layers chained by hand, trained for a while.

#include <doctest/doctest.h>

#include <cmath>

#include "models/layers/optimizer.hpp"
#include "models/zoo/zoo.hpp"
#include "tests/models/layers/layer_run.hpp"

namespace pipeplan::test {
namespace {

template<class Scalar>
class Network {
 public:
  Network(const ModelSpec& spec, std::int64_t batch) {
    auto graph = build_model(spec);
    REQUIRE(graph);
    for (const Layer& layer : graph->layers()) runs_.emplace_back(*layer.runnable, batch);
    for (std::size_t i = 0; i < runs_.size(); ++i) runs_[i].layer->initialize(runs_[i].parameters.data(), i);
  }

  Scalar loss(std::vector<Scalar> input, const std::vector<Scalar>& targets) {
    for (auto& run : runs_) input = run.forward(input, is_loss(run.spec) ? targets : std::vector<Scalar>{});
    return input[0];
  }

  void backward() {
    std::vector<Scalar> gradient = {1};
    for (std::size_t i = runs_.size(); i-- > 0;) {
      gradient = runs_[i].backward_input(gradient);
      runs_[i].backward_weight();
    }
  }

  void step(float rate) {
    for (auto& run : runs_)
      optimizer_step({.learning_rate = rate}, 1, run.layer->parameter_buffer_count(), run.parameters.data(),
                     run.grad_parameters.data(), nullptr);
  }

  LayerRun<Scalar>& first() { return runs_.front(); }
  LayerRun<Scalar>& last() { return runs_.back(); }
  std::vector<LayerRun<Scalar>>& runs() { return runs_; }

 private:
  std::vector<LayerRun<Scalar>> runs_;
};

const TransformerSpec small_transformer{.blocks = 2, .hidden = 8, .heads = 2, .sequence = 6, .vocabulary = 9};

}  // namespace

TEST_CASE("network: the loss of a whole transformer moves with any parameter as its gradient says") {
  INFO("seed 15");
  Random random(15);
  Network<double> network(small_transformer, 2);
  const auto input = random_input(network.first(), random);
  const auto targets = random_targets(network.last(), random);
  network.loss(input, targets);
  network.backward();
  for (auto& run : network.runs()) {
    if (run.layer->parameter_count() == 0) continue;
    for (int sample = 0; sample < 10; ++sample) {
      const std::int64_t at = random.between(0, run.layer->parameter_buffer_count() - 1);
      double& parameter = run.parameters.data()[at];
      const double before = parameter, step = 1e-5;
      parameter = before + step;
      const double above = network.loss(input, targets);
      parameter = before - step;
      const double below = network.loss(input, targets);
      parameter = before;
      INFO(spelt(run.spec.kind), ", parameter ", at);
      CHECK(std::abs((above - below) / (2 * step) - run.grad_parameters.data()[at]) < 1e-8);
    }
  }
}

TEST_CASE("network: a fresh transformer guesses about evenly, and then learns a batch by heart") {
  INFO("seed 16");
  Random random(16);
  Network<float> network(small_transformer, 4);
  const auto input = random_input(network.first(), random);
  std::vector<float> targets;
  for (const float id : input) targets.push_back(std::fmod(id * 2, 9.0F));
  const float first = network.loss(input, targets);
  CHECK(first == doctest::Approx(std::log(9.0)).epsilon(0.3));
  for (int i = 0; i < 300; ++i) {
    network.loss(input, targets);
    network.backward();
    network.step(0.3F);
  }
  CHECK(network.loss(input, targets) < 0.1 * first);
}

TEST_CASE("network: an mlp learns the sum of its inputs") {
  INFO("seed 17");
  Random random(17);
  Network<float> network(MlpSpec{.inputs = 4, .width = 16, .layers = 2, .outputs = 1}, 32);
  const auto input = random_values<float>(32 * 4, random);
  std::vector<float> targets;
  for (std::size_t row = 0; row < 32; ++row)
    targets.push_back(input[4 * row] + input[4 * row + 1] + input[4 * row + 2] + input[4 * row + 3]);
  const float first = network.loss(input, targets);
  for (int i = 0; i < 500; ++i) {
    network.loss(input, targets);
    network.backward();
    network.step(0.1F);
  }
  CHECK(network.loss(input, targets) < 0.01 * first);
}

}  // namespace pipeplan::test
