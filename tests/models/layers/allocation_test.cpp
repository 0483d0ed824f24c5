// Counts allocations from the heap, to hold the kernels to their promise that they make none. Under a
// sanitizer its own hook counts; otherwise malloc itself is ours (glibc keeps its own under another name),
// since Eigen calls malloc.

#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>

#include "tests/models/layers/layer_run.hpp"
#include "tests/models/layers/sample_layers.hpp"

namespace {

std::atomic<std::int64_t> allocation_count = 0;

}  // namespace

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// From the sanitizers' allocator_interface.h, which GCC does not install.
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void*, std::size_t),
                                                         void (*on_free)(const volatile void*));

namespace {

void count_allocation(const volatile void*, std::size_t) { ++allocation_count; }
void ignore_free(const volatile void*) {}
const int hooked = __sanitizer_install_malloc_and_free_hooks(count_allocation, ignore_free);

}  // namespace
#else
extern "C" void* __libc_malloc(std::size_t size);

extern "C" void* malloc(std::size_t size) {
  ++allocation_count;
  return __libc_malloc(size);
}
#endif

namespace pipeplan::test {
namespace {

// One forward and backward; every buffer is there before.
template<class Scalar>
std::int64_t allocations_in_a_step(LayerRun<Scalar>& run) {
  const std::int64_t before = allocation_count;
  run.layer->forward(run.batch, run.parameters.data(), run.stash.data(), run.output.data(),
                     run.scratch.data());
  run.layer->backward_input(run.batch, run.parameters.data(), run.stash.data(), run.grad_output.data(),
                            run.grad_input.data(), run.deferred.data(), run.scratch.data());
  run.layer->backward_weight(run.batch, run.parameters.data(), run.stash.data(), run.grad_output.data(),
                             run.deferred.data(), run.grad_parameters.data(), run.scratch.data());
  return allocation_count - before;
}

// Sizes beyond every limit at which Eigen changes its ways: one row, one column, several blocks each way.
std::vector<SampleLayer> large_layers() {
  return {{"one row", sample_part(LayerKind::linear, 1, 1500, 700)},
          {"one column", sample_part(LayerKind::linear, 700, 1500, 1)},
          {"one input", sample_part(LayerKind::linear, 700, 1, 1500)},
          {"several blocks each way", sample_part(LayerKind::linear, 600, 600, 1100)},
          {"long attention", sample_attention(600, 64, 2)},
          {"wide norm", sample_part(LayerKind::layer_norm, 3, 20000, 20000)},
          {"many classes", sample_part(LayerKind::cross_entropy, 3, 20000, 0)}};
}

template<class Scalar>
void check_that_steps_allocate_nothing(const std::vector<SampleLayer>& samples) {
  for (const SampleLayer& sample : samples) {
    INFO(sample.name);
    LayerRun<Scalar> run(sample.spec, 2);
    CHECK(allocations_in_a_step(run) == 0);
  }
}

}  // namespace

TEST_CASE("allocation count: one vector is one allocation") {
  const std::int64_t before = allocation_count;
  const std::vector<int> vector(1000);
  CHECK(allocation_count - before == 1);
  CHECK(vector.size() == 1000);
}

TEST_CASE("layers: forward and backward allocate nothing, in float and in double") {
  check_that_steps_allocate_nothing<float>(sample_layers());
  check_that_steps_allocate_nothing<double>(sample_layers());
  check_that_steps_allocate_nothing<float>(large_layers());
  check_that_steps_allocate_nothing<double>(large_layers());
}

}  // namespace pipeplan::test
