#pragma once

// What runs layers and holds their tensors: the CPU, or a part of a GPU. A Segment drives either. On a GPU
// everything but download() only enqueues, in one order; a failure sticks to the processor and shows when it
// is synchronised.

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "models/base/spelling.hpp"
#include "models/layers/arena.hpp"
#include "models/layers/layer.hpp"
#include "models/layers/optimizer.hpp"

namespace pipeplan {

enum class LayerPass : std::uint8_t { forward, backward_input, backward_weight, optimizer, transfer, other };

constexpr auto spellings(LayerPass) {
  using enum LayerPass;
  return std::to_array<Spelling<LayerPass>>({{forward, "forward"},
                                             {backward_input, "backward_input"},
                                             {backward_weight, "backward_weight"},
                                             {optimizer, "optimizer"},
                                             {transfer, "transfer"},
                                             {other, "other"}});
}

// What the work that follows belongs to: for error messages and for attributing GPU kernels.
struct LaunchLabel {
  std::int64_t layer = 0;  // number in the network
  LayerPass pass = LayerPass::other;
  std::int64_t micro_batch = 0;
  friend bool operator==(const LaunchLabel&, const LaunchLabel&) = default;
};

class Processor {
 public:
  virtual ~Processor() = default;

  virtual Result<std::unique_ptr<RunnableLayer<float>>> make_layer(const LayerSpec& spec,
                                                                   const std::string& where) = 0;
  // Memory of this processor; `where` names who asks, in the error that says how much there is.
  virtual Result<Arena> reserve(Bytes capacity, const std::string& where) = 0;

  // `count` scalars of this processor's memory.
  virtual void zero(float* place, std::int64_t count) = 0;
  virtual void fill(float* place, std::int64_t count, float value) = 0;
  virtual void copy(const float* from, float* to, std::int64_t count) = 0;
  virtual void add(const float* from, float* to, std::int64_t count) = 0;  // to += from
  // Between host memory and this processor's. `from` may be reused when upload returns; download returns
  // when the values are there.
  virtual void upload(std::span<const float> from, float* to) = 0;
  virtual void download(const float* from, std::span<float> to) = 0;
  // See optimizer_step.
  virtual void step(const Optimizer& optimizer, std::int64_t number, std::int64_t count, float* parameters,
                    float* gradients, float* state) = 0;

  // Around the work of one layer and pass; never nested.
  virtual void begin(const LaunchLabel&) {}
  virtual void end() {}
};

// The CPU: everything has happened when a call returns. Holds no state; one object serves any threads.
std::unique_ptr<Processor> make_host_processor();

// begin() now, end() at the end of the scope.
class LaunchScope {
 public:
  LaunchScope(Processor& processor, const LaunchLabel& label) : processor_(processor) {
    processor_.begin(label);
  }
  ~LaunchScope() { processor_.end(); }
  LaunchScope(const LaunchScope&) = delete;
  LaunchScope& operator=(const LaunchScope&) = delete;

 private:
  Processor& processor_;
};

}  // namespace pipeplan
