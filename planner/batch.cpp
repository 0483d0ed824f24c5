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

// `what` the batch must be a multiple of, and how much that is.
Failure batch_not_multiple(std::int64_t batch, const std::string& what, std::int64_t divisor) {
  const std::int64_t below = batch / divisor * divisor;
  const std::string nearest = below == 0
                                  ? fmt::format("the nearest that is: {}", divisor)
                                  : fmt::format("the nearest that are: {}, {}", below, below + divisor);
  return bad_usage(fmt::format("global batch {} is not a multiple of {}; {}", batch, what, nearest));
}

// A batch of several copies, where each copy's share cannot be cut as asked.
Failure batch_not_multiple(std::int64_t batch, std::int64_t size, std::int64_t copies) {
  if (copies == 1) return batch_not_multiple(batch, fmt::format("micro-batch size {}", size), size);
  return batch_not_multiple(
      batch, fmt::format("micro-batch size {} times {} copies", size, copies),
      checked_product(size, copies, largest_document_integer).value_or(largest_document_integer));
}

Failure count_not_divisor(std::int64_t share, std::int64_t count, std::int64_t copies) {
  const std::string whose = copies == 1 ? fmt::format("global batch {}", share)
                                        : fmt::format("each copy's share of the global batch, {},", share);
  return bad_usage(fmt::format("{} cannot be cut into {} equal micro-batches; counts that divide it: {}",
                               whose, count, fmt::join(divisors_near(share, count), ", ")));
}

Result<std::int64_t> profiled_size(const Profile& profile, const std::optional<std::int64_t>& batch,
                                   std::int64_t copies) {
  const std::vector<std::int64_t> sizes = profiled_sizes(profile);
  if (sizes.empty())
    return bad_input(profile.model, "no micro-batch size is profiled for every layer",
                     "give the micro-batch size, so that the layers' costs are interpolated");
  if (!batch) return sizes.front();
  for (const std::int64_t size : sizes)
    if (*batch / copies % size == 0) return size;
  if (sizes.size() == 1) return batch_not_multiple(*batch, sizes.front(), copies);
  const std::string shared = copies == 1 ? "" : fmt::format(", shared by {} copies,", copies);
  return bad_usage(fmt::format("global batch {}{} is a multiple of no profiled micro-batch size ({})", *batch,
                               shared, fmt::join(sizes, ", ")));
}

Result<std::int64_t> open_size(const Profile& profile, const PlanOptions& options) {
  if (!options.global_batch || !options.micro_batch_count)
    return profiled_size(profile, options.global_batch, options.data_parallel);
  const std::int64_t share = *options.global_batch / options.data_parallel;
  if (share % *options.micro_batch_count != 0)
    return count_not_divisor(share, *options.micro_batch_count, options.data_parallel);
  return share / *options.micro_batch_count;
}

Result<void> check_copies(const PlanOptions& options) {
  PIPEPLAN_CHECK(check_positive("number of copies", options.data_parallel));
  if (!options.global_batch || *options.global_batch % options.data_parallel == 0) return {};
  return batch_not_multiple(*options.global_batch, fmt::format("the {} copies", options.data_parallel),
                            options.data_parallel);
}

Result<void> check_product(const Batch& batch, const PlanOptions& options) {
  const std::string copies =
      options.data_parallel == 1 ? "" : fmt::format(" times {} copies", options.data_parallel);
  auto product = checked_product(batch.micro_batch_size, batch.micro_batch_count, largest_document_integer);
  if (product) product = checked_product(*product, options.data_parallel, largest_document_integer);
  if (!product)
    return bad_usage(fmt::format("micro-batch size {} times count {}{} is more than {}",
                                 batch.micro_batch_size, batch.micro_batch_count, copies,
                                 largest_document_integer));
  if (options.global_batch && *product != *options.global_batch)
    return bad_usage(fmt::format("micro-batch size {} times count {}{} is {}, not the global batch {}",
                                 batch.micro_batch_size, batch.micro_batch_count, copies, *product,
                                 *options.global_batch));
  return {};
}

}  // namespace

Result<Batch> choose_batch(const Profile& profile, const PlanOptions& options, std::int64_t stages) {
  PIPEPLAN_CHECK(check_positive("micro-batch size", options.micro_batch_size));
  PIPEPLAN_CHECK(check_positive("micro-batch count", options.micro_batch_count));
  PIPEPLAN_CHECK(check_positive("global batch", options.global_batch));
  PIPEPLAN_CHECK(check_copies(options));
  Result<std::int64_t> size =
      options.micro_batch_size ? *options.micro_batch_size : open_size(profile, options);
  if (!size) return Failure(size.error());
  std::int64_t count = options.micro_batch_count.value_or(4 * stages);
  if (options.global_batch && !options.micro_batch_count) {
    const std::int64_t share = *options.global_batch / options.data_parallel;
    if (share % *size != 0) return batch_not_multiple(*options.global_batch, *size, options.data_parallel);
    count = share / *size;
  }
  const Batch batch{*size, count};
  PIPEPLAN_CHECK(check_product(batch, options));
  return batch;
}

}  // namespace pipeplan
