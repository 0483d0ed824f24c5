#include "models/layers/green_split.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "models/base/assert.hpp"

namespace pipeplan {
namespace {

// More than any GPU has, and few enough to be added up.
constexpr std::int64_t most_groups = 1 << 20;

Failure do_not_fit(const SmGroups& groups, std::int64_t wanted_groups, std::size_t requests,
                   const std::string& where) {
  return fail(
      ErrorCode::bad_usage, where,
      fmt::format("{} green contexts want {} SMs, but {} can be shared out in groups of {} (of {} SMs)",
                  requests, wanted_groups * groups.sms_each, groups.count * groups.sms_each, groups.sms_each,
                  groups.device_sms),
      "ask for fewer SMs or fewer partitions, or use plain streams");
}

Failure too_small(const SmGroups& groups, std::int64_t sm_count, const std::string& where) {
  return fail(ErrorCode::bad_usage, where,
              fmt::format("a green context of {} SMs was asked for, but the smallest has {}", sm_count,
                          groups.sms_each));
}

}  // namespace

Result<std::vector<std::int64_t>> split_groups(const SmGroups& groups,
                                               std::span<const std::optional<std::int64_t>> sm_counts,
                                               const std::string& where) {
  PIPEPLAN_ASSERT(groups.sms_each > 0);
  std::vector<std::int64_t> shares;
  std::int64_t taken = 0, open = 0;
  for (const auto& sm_count : sm_counts) {
    if (sm_count && *sm_count < groups.sms_each) return too_small(groups, *sm_count, where);
    shares.push_back(sm_count ? std::min(*sm_count / groups.sms_each, most_groups) : 0);
    taken += shares.back();
    open += sm_count ? 0 : 1;
  }
  if (taken + open > groups.count) return do_not_fit(groups, taken + open, sm_counts.size(), where);
  for (std::size_t i = 0; i < shares.size(); ++i)
    if (!sm_counts[i]) shares[i] = (groups.count - taken) / open;
  return shares;
}

}  // namespace pipeplan
