#pragma once

// One layer with memory of exactly the sizes that it asks for, 64-byte aligned, so that sanitizers see every
// step outside. What a call must not rely on (scratch, outputs, deferred) is NaN before it.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <memory>
#include <vector>

#include "models/layers/layer.hpp"
#include "tests/support/random.hpp"

namespace pipeplan::test {

template<class Scalar>
class AlignedBuffer {
 public:
  explicit AlignedBuffer(std::int64_t count)
      : count_(aligned_count<Scalar>(std::max<std::int64_t>(count, 1))) {
    const auto bytes = static_cast<std::size_t>(count_) * sizeof(Scalar);
    scalars_.reset(static_cast<Scalar*>(std::aligned_alloc(buffer_alignment, bytes)));
    fill(Scalar(0));
  }
  void fill(Scalar value) { std::fill_n(scalars_.get(), count_, value); }
  void forget() { fill(std::numeric_limits<Scalar>::quiet_NaN()); }
  void set(const std::vector<Scalar>& values, std::int64_t offset = 0) {
    std::copy(values.begin(), values.end(), scalars_.get() + offset);
  }
  [[nodiscard]] std::vector<Scalar> first(std::int64_t count) const { return {data(), data() + count}; }
  [[nodiscard]] Scalar* data() const { return scalars_.get(); }
  [[nodiscard]] std::int64_t count() const { return count_; }

 private:
  struct Free {
    void operator()(Scalar* scalars) const { std::free(scalars); }
  };
  std::int64_t count_;
  std::unique_ptr<Scalar, Free> scalars_;
};

inline double random_fraction(Random& random) {
  return static_cast<double>(random.between(-1000, 1000)) / 1000;
}

template<class Scalar>
std::vector<Scalar> random_values(std::int64_t count, Random& random) {
  std::vector<Scalar> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(static_cast<Scalar>(random_fraction(random)));
  return values;
}

template<class Scalar>
struct LayerRun {
  LayerRun(const LayerSpec& layer_spec, std::int64_t batch_size)
      : spec(layer_spec),
        layer(made(layer_spec)),
        batch(batch_size),
        parameters(layer->parameter_buffer_count()),
        grad_parameters(layer->parameter_buffer_count()),
        stash(layer->stash_count(batch)),
        output(layer->output_count(batch)),
        grad_output(layer->output_count(batch)),
        grad_input(layer->input_count(batch)),
        deferred(layer->deferred_count(batch)),
        scratch(layer->scratch_count(batch)) {
    layer->initialize(parameters.data(), 1);
  }

  std::vector<Scalar> forward(const std::vector<Scalar>& input, const std::vector<Scalar>& targets = {}) {
    stash.forget();
    stash.set(input);
    stash.set(targets, layer->target_offset(batch));
    output.forget();
    scratch.forget();
    layer->forward(batch, parameters.data(), stash.data(), output.data(), scratch.data());
    return output.first(layer->output_count(batch));
  }

  std::vector<Scalar> backward_input(const std::vector<Scalar>& gradient) {
    grad_output.forget();
    grad_output.set(gradient);
    grad_input.forget();
    deferred.forget();
    scratch.forget();
    layer->backward_input(batch, parameters.data(), stash.data(), grad_output.data(), grad_input.data(),
                          deferred.data(), scratch.data());
    return grad_input.first(layer->input_count(batch));
  }

  // After backward_input; adds to grad_parameters.
  std::vector<Scalar> backward_weight() {
    scratch.forget();
    layer->backward_weight(batch, parameters.data(), stash.data(), grad_output.data(), deferred.data(),
                           grad_parameters.data(), scratch.data());
    return grad_parameters.first(layer->parameter_buffer_count());
  }

  LayerSpec spec;
  std::unique_ptr<RunnableLayer<Scalar>> layer;
  std::int64_t batch;
  AlignedBuffer<Scalar> parameters, grad_parameters, stash, output, grad_output, grad_input, deferred,
      scratch;

 private:
  static std::unique_ptr<RunnableLayer<Scalar>> made(const LayerSpec& layer_spec) {
    auto result = make_layer<Scalar>(layer_spec, "test");
    REQUIRE_MESSAGE(result, result.error().message);
    return std::move(*result);
  }
};

// Inputs and targets that suit the layer: ids where ids are wanted, elsewhere numbers from -1 to 1.
template<class Scalar>
std::vector<Scalar> random_ids(std::int64_t count, std::int64_t below, Random& random) {
  std::vector<Scalar> ids;
  for (std::int64_t i = 0; i < count; ++i) ids.push_back(static_cast<Scalar>(random.between(0, below - 1)));
  return ids;
}

template<class Scalar>
std::vector<Scalar> random_input(const LayerRun<Scalar>& run, Random& random) {
  const std::int64_t count = run.layer->input_count(run.batch);
  if (run.spec.kind == LayerKind::embedding) return random_ids<Scalar>(count, run.spec.vocabulary, random);
  return random_values<Scalar>(count, random);
}

template<class Scalar>
std::vector<Scalar> random_targets(const LayerRun<Scalar>& run, Random& random) {
  const std::int64_t count = run.layer->target_count(run.batch);
  if (run.spec.kind == LayerKind::cross_entropy) return random_ids<Scalar>(count, run.spec.inputs, random);
  return random_values<Scalar>(count, random);
}

}  // namespace pipeplan::test
