#pragma once

// The simplest layer: no parameters, no targets, nothing in the stash but its input. The kinds of layer start
// from it and override what they do otherwise.

#include <algorithm>
#include <utility>

#include "models/layers/layer.hpp"

namespace pipeplan {

template<class Scalar>
class PlainLayer : public RunnableLayer<Scalar> {
 public:
  explicit PlainLayer(LayerSpec spec) : spec_(std::move(spec)) {}

  std::int64_t parameter_count() const override { return 0; }
  std::int64_t parameter_buffer_count() const override { return 0; }
  std::int64_t input_count(std::int64_t batch) const override { return rows(batch) * spec_.inputs; }
  std::int64_t output_count(std::int64_t batch) const override { return rows(batch) * spec_.outputs; }
  std::int64_t stash_count(std::int64_t batch) const override {
    return aligned_count<Scalar>(input_count(batch));
  }
  std::int64_t deferred_count(std::int64_t) const override { return 0; }
  std::int64_t scratch_count(std::int64_t) const override { return 0; }
  std::int64_t target_offset(std::int64_t) const override { return 0; }
  std::int64_t target_count(std::int64_t) const override { return 0; }

  void initialize(Scalar* parameters, std::uint64_t seed) const final {
    std::fill_n(parameters, this->parameter_buffer_count(), Scalar(0));
    set_initial_values(parameters, seed);
  }

  void backward_weight(std::int64_t, const Scalar*, const Scalar*, const Scalar*, const Scalar*, Scalar*,
                       Scalar*) const override {}

 protected:
  // `parameters` are all 0.
  virtual void set_initial_values(Scalar*, std::uint64_t) const {}

  [[nodiscard]] const LayerSpec& spec() const { return spec_; }
  [[nodiscard]] std::int64_t rows(std::int64_t batch) const { return batch * spec_.rows_per_sample; }

 private:
  LayerSpec spec_;
};

}  // namespace pipeplan
