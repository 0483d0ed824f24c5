#include "profiler/gpu/trace.hpp"

namespace pipeplan {
namespace {

constexpr std::uint64_t low_bits(int count) { return (std::uint64_t{1} << count) - 1; }

constexpr int pass_bits = 8, micro_batch_bits = 16, layer_bits = 32, iteration_bits = 8;
constexpr int micro_batch_place = pass_bits;
constexpr int layer_place = micro_batch_place + micro_batch_bits;
constexpr int iteration_place = layer_place + layer_bits;
static_assert(iteration_place + iteration_bits == 64);

std::uint64_t field(std::int64_t value, int bits, int place) {
  return (static_cast<std::uint64_t>(value) & low_bits(bits)) << place;
}

std::int64_t value_of(std::uint64_t packed, int bits, int place) {
  return static_cast<std::int64_t>((packed >> place) & low_bits(bits));
}

}  // namespace

std::uint64_t pack(const LaunchTag& tag) {
  return field(tag.iteration, iteration_bits, iteration_place) |
         field(tag.label.layer, layer_bits, layer_place) |
         field(tag.label.micro_batch, micro_batch_bits, micro_batch_place) |
         field(static_cast<std::int64_t>(tag.label.pass), pass_bits, 0);
}

LaunchTag unpack(std::uint64_t bits) {
  const std::int64_t pass = value_of(bits, pass_bits, 0);
  const bool known = pass <= static_cast<std::int64_t>(LayerPass::other);
  return {.iteration = value_of(bits, iteration_bits, iteration_place),
          .label = {.layer = value_of(bits, layer_bits, layer_place),
                    .pass = known ? static_cast<LayerPass>(pass) : LayerPass::other,
                    .micro_batch = value_of(bits, micro_batch_bits, micro_batch_place)}};
}

}  // namespace pipeplan
