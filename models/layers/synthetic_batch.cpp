#include "models/layers/synthetic_batch.hpp"

#include <vector>

#include "models/base/assert.hpp"
#include "models/layers/initial_values.hpp"

namespace pipeplan {
namespace {

// A stream of numbers per key, the same on every platform.
class Stream {
 public:
  explicit Stream(const BatchKey& key) {
    for (const std::int64_t part : {key.seed, key.iteration, key.micro_batch})
      state_ = next() ^ static_cast<std::uint64_t>(part);
  }
  std::uint64_t next() {
    const std::uint64_t number = split_mix(state_);
    state_ += split_mix_step;
    return number;
  }
  float uniform() { return static_cast<float>(next() >> 40) * 0x1p-23F - 1.0F; }

 private:
  std::uint64_t state_ = 0;
};

// Each sample starts at a random token and walks on by a fixed stride: the next token is always predictable.
float token_at(std::uint64_t start, std::int64_t step, std::int64_t vocabulary) {
  constexpr std::int64_t stride = 7;
  const auto first = static_cast<std::int64_t>(start % static_cast<std::uint64_t>(vocabulary));
  return static_cast<float>((first + step * stride) % vocabulary);
}

void fill_tokens(const LayerSpec& embedding, const BatchKey& key, std::int64_t shift,
                 std::span<float> tokens) {
  Stream stream(key);
  const auto rows = static_cast<std::size_t>(embedding.rows_per_sample);
  for (std::size_t i = 0; i < tokens.size(); i += rows) {
    const std::uint64_t start = stream.next();
    for (std::size_t row = 0; row < rows; ++row)
      tokens[i + row] = token_at(start, static_cast<std::int64_t>(row) + shift, embedding.vocabulary);
  }
}

}  // namespace

void fill_inputs(const LayerSpec& first_layer, const BatchKey& key, std::span<float> inputs) {
  if (first_layer.kind == LayerKind::embedding) return fill_tokens(first_layer, key, 0, inputs);
  Stream stream(key);
  for (float& value : inputs) value = stream.uniform();
}

void fill_targets(const LayerSpec& first_layer, const LayerSpec& loss, const BatchKey& key,
                  std::span<float> targets) {
  if (loss.kind == LayerKind::cross_entropy) {
    PIPEPLAN_ASSERT(first_layer.kind == LayerKind::embedding);
    return fill_tokens(first_layer, key, 1, targets);
  }
  const auto width = static_cast<std::size_t>(first_layer.inputs);
  const auto columns = static_cast<std::size_t>(loss.inputs);
  std::vector<float> inputs(targets.size() / columns * width);
  fill_inputs(first_layer, key, inputs);
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const float* row = &inputs[i / columns * width];
    targets[i] = 0.5F * (row[i % columns % width] + row[(i % columns + 1) % width]);
  }
}

}  // namespace pipeplan
