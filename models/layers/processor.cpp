#include "models/layers/processor.hpp"

#include <algorithm>

namespace pipeplan {
namespace {

class HostProcessor final : public Processor {
 public:
  Result<std::unique_ptr<RunnableLayer<float>>> make_layer(const LayerSpec& spec,
                                                           const std::string& where) override {
    return pipeplan::make_layer<float>(spec, where);
  }
  Result<Arena> reserve(Bytes capacity, const std::string& where) override {
    return Arena::reserve(capacity, where);
  }

  void zero(float* place, std::int64_t count) override { fill(place, count, 0); }
  void fill(float* place, std::int64_t count, float value) override { std::fill_n(place, count, value); }
  void copy(const float* from, float* to, std::int64_t count) override { std::copy_n(from, count, to); }
  void add(const float* from, float* to, std::int64_t count) override {
    for (std::int64_t i = 0; i < count; ++i) to[i] += from[i];
  }
  void upload(std::span<const float> from, float* to) override { std::ranges::copy(from, to); }
  void download(const float* from, std::span<float> to) override { std::copy_n(from, to.size(), to.begin()); }
  void step(const Optimizer& optimizer, std::int64_t number, std::int64_t count, float* parameters,
            float* gradients, float* state) override {
    optimizer_step(optimizer, number, count, parameters, gradients, state);
  }
};

}  // namespace

std::unique_ptr<Processor> make_host_processor() { return std::make_unique<HostProcessor>(); }

}  // namespace pipeplan
