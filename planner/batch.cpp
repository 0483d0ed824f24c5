#include "planner/batch.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace pipeplan {
namespace {

constexpr std::size_t most_suggestions = 8;

Result<void> check_positive(const char* what, const std::optional<std::int64_t>& value) {
  if (!value || (*value >= 1 && *value <= largest_document_integer)) return {};
  return bad_usage(
      fmt::format("{} is {}, wanted a number from 1 to {}", what, *value, largest_document_integer));
}

// The divisors of `batch`; of many, those nearest to `wanted`.
std::vector<std::int64_t> divisors_near(std::int64_t batch, std::int64_t wanted) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t small = 1; small <= batch / small; ++small) {
    if (batch % small != 0) continue;
    divisors.push_back(small);
    if (batch / small != small) divisors.push_back(batch / small);
  }
  std::sort(divisors.begin(), divisors.end(), [wanted](std::int64_t a, std::int64_t b) {
    return std::pair(std::abs(a - wanted), a) < std::pair(std::abs(b - wanted), b);
  });
  divisors.resize(std::min(divisors.size(), most_suggestions));
  std::sort(divisors.begin(), divisors.end());
  return divisors;
}

Failure batch_not_multiple(std::int64_t batch, std::int64_t size) {
  const std::int64_t below = batch / size * size;
  const std::string nearest = below == 0 ? fmt::format("the nearest that is: {}", size)
                                         : fmt::format("the nearest that are: {}, {}", below, below + size);
  return bad_usage(
      fmt::format("global batch {} is not a multiple of micro-batch size {}; {}", batch, size, nearest));
}

Failure count_not_divisor(std::int64_t batch, std::int64_t count) {
  return bad_usage(
      fmt::format("global batch {} cannot be cut into {} equal micro-batches; counts that divide it: {}",
                  batch, count, fmt::join(divisors_near(batch, count), ", ")));
}

Result<std::int64_t> profiled_size(const Profile& profile, const std::optional<std::int64_t>& batch) {
  const std::vector<std::int64_t> sizes = profiled_sizes(profile);
  if (sizes.empty())
    return bad_input(profile.model, "no micro-batch size is profiled for every layer",
                     "give the micro-batch size, so that the layers' costs are interpolated");
  if (!batch) return sizes.front();
  for (const std::int64_t size : sizes)
    if (*batch % size == 0) return size;
  if (sizes.size() == 1) return batch_not_multiple(*batch, sizes.front());
  return bad_usage(fmt::format("global batch {} is a multiple of no profiled micro-batch size ({})", *batch,
                               fmt::join(sizes, ", ")));
}

Result<std::int64_t> open_size(const Profile& profile, const PlanOptions& options) {
  if (!options.global_batch || !options.micro_batch_count)
    return profiled_size(profile, options.global_batch);
  if (*options.global_batch % *options.micro_batch_count != 0)
    return count_not_divisor(*options.global_batch, *options.micro_batch_count);
  return *options.global_batch / *options.micro_batch_count;
}

Result<void> check_product(std::int64_t size, std::int64_t count, const std::optional<std::int64_t>& batch) {
  const auto product = checked_product(size, count, largest_document_integer);
  if (!product)
    return bad_usage(fmt::format("micro-batch size {} times count {} is more than {}", size, count,
                                 largest_document_integer));
  if (batch && *product != *batch)
    return bad_usage(fmt::format("micro-batch size {} times count {} is {}, not the global batch {}", size,
                                 count, *product, *batch));
  return {};
}

}  // namespace

Result<Batch> choose_batch(const Profile& profile, const PlanOptions& options, std::int64_t stages) {
  PIPEPLAN_CHECK(check_positive("micro-batch size", options.micro_batch_size));
  PIPEPLAN_CHECK(check_positive("micro-batch count", options.micro_batch_count));
  PIPEPLAN_CHECK(check_positive("global batch", options.global_batch));
  Result<std::int64_t> size =
      options.micro_batch_size ? *options.micro_batch_size : open_size(profile, options);
  if (!size) return Failure(size.error());
  std::int64_t count = options.micro_batch_count.value_or(4 * stages);
  if (options.global_batch && !options.micro_batch_count) {
    if (*options.global_batch % *size != 0) return batch_not_multiple(*options.global_batch, *size);
    count = *options.global_batch / *size;
  }
  PIPEPLAN_CHECK(check_product(*size, count, options.global_batch));
  return Batch{*size, count};
}

}  // namespace pipeplan
