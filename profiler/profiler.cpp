#include "profiler/profiler.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "profiler/cpu_profiler.hpp"
#include "profiler/gpu/gpu_backend.hpp"
#include "profiler/gpu/gpu_profiler.hpp"

namespace pipeplan {
namespace {

Result<std::vector<std::int64_t>> sorted_sizes(std::vector<std::int64_t> sizes) {
  if (sizes.empty()) return bad_usage("no micro-batch size is given, wanted at least one");
  std::ranges::sort(sizes);
  if (const auto twice = std::ranges::adjacent_find(sizes); twice != sizes.end())
    return bad_usage(fmt::format("micro-batch size {} is given twice", *twice));
  if (sizes.front() < 1)
    return bad_usage(fmt::format("micro-batch size is {}, wanted at least 1", sizes.front()));
  return sizes;
}

Result<Profiling> profile_on_cuda(const ModelGraph& model, const ProfileOptions& options) {
  PIPEPLAN_TRY(backend, cuda_backend());
  return profile_on_gpu(model, options, *backend);
}

}  // namespace

Result<Profiling> profile_model(const ModelGraph& model, const ProfileOptions& options) {
  ProfileOptions sorted = options;
  PIPEPLAN_TRY(sizes, sorted_sizes(options.micro_batch_sizes));
  sorted.micro_batch_sizes = sizes;
  switch (options.backend) {
    case Backend::cpu: return profile_on_cpu(model, sorted);
    case Backend::cuda: return profile_on_cuda(model, sorted);
    case Backend::sleep:
    case Backend::virtual_clock: break;
  }
  return bad_usage(
      fmt::format("backend '{}' measures nothing: it is given its times", spelt(options.backend)),
      "profile with --backend cpu or cuda");
}

}  // namespace pipeplan
