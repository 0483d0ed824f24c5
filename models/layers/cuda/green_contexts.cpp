#include "models/layers/cuda/green_contexts.hpp"

#include <fmt/format.h>

#include "models/layers/green_split.hpp"

namespace pipeplan {
namespace {

Result<CUdevResource> device_sms(const DriverFunctions& driver, int device, const std::string& where) {
  CUdevice number{};
  PIPEPLAN_CHECK(driver.check(driver.device_get(&number, device), "cuDeviceGet", where));
  CUdevResource sms{};
  PIPEPLAN_CHECK(driver.check(driver.device_resource(number, &sms, CU_DEV_RESOURCE_TYPE_SM),
                              "cuDeviceGetDevResource", where));
  return sms;
}

// All groups from one call, as the driver joins only groups of the same split.
Result<std::vector<CUdevResource>> smallest_groups(const DriverFunctions& driver, const CUdevResource& sms,
                                                   const std::string& where) {
  constexpr const char* call = "cuDevSmResourceSplitByCount";
  const unsigned smallest = sms.sm.minSmPartitionSize;
  unsigned count = 0;
  PIPEPLAN_CHECK(driver.check(driver.split_sms(nullptr, &count, &sms, nullptr, 0, smallest), call, where));
  std::vector<CUdevResource> groups(count);
  CUdevResource rest{};
  PIPEPLAN_CHECK(
      driver.check(driver.split_sms(groups.data(), &count, &sms, &rest, 0, smallest), call, where));
  groups.resize(count);
  if (groups.empty()) return fail(ErrorCode::unavailable, where, "the driver splits its SMs into no groups");
  return groups;
}

Result<GreenPart> make_part(const DriverFunctions& driver, int device, std::span<CUdevResource> groups,
                            const std::string& where) {
  CUdevResourceDesc description{};
  const auto group_count = static_cast<unsigned>(groups.size());
  PIPEPLAN_CHECK(driver.check(driver.describe(&description, groups.data(), group_count),
                              "cuDevResourceGenerateDesc", where));
  CUdevice number{};
  PIPEPLAN_CHECK(driver.check(driver.device_get(&number, device), "cuDeviceGet", where));
  CUgreenCtx made{};
  PIPEPLAN_CHECK(driver.check(driver.create_context(&made, description, number, CU_GREEN_CTX_DEFAULT_STREAM),
                              "cuGreenCtxCreate", where));
  GreenPart part{GreenContext(made, {driver.destroy_context})};
  CUdevResource granted{};
  PIPEPLAN_CHECK(driver.check(driver.context_resource(made, &granted, CU_DEV_RESOURCE_TYPE_SM),
                              "cuGreenCtxGetDevResource", where));
  part.sm_count = granted.sm.smCount;
  return part;
}

}  // namespace

Result<std::vector<GreenPart>> make_green_parts(const DriverFunctions& driver, int device,
                                                std::span<const std::optional<std::int64_t>> sm_counts) {
  const std::string where = fmt::format("GPU {}", device);
  PIPEPLAN_TRY(sms, device_sms(driver, device, where));
  PIPEPLAN_TRY(groups, smallest_groups(driver, sms, where));
  const SmGroups sizes{static_cast<std::int64_t>(groups.size()), groups.front().sm.smCount, sms.sm.smCount};
  PIPEPLAN_TRY(shares, split_groups(sizes, sm_counts, where));
  std::vector<GreenPart> parts;
  std::span<CUdevResource> left(groups);
  for (const std::int64_t share : shares) {
    const auto count = static_cast<std::size_t>(share);
    PIPEPLAN_TRY(part, make_part(driver, device, left.first(count), where));
    parts.push_back(std::move(part));
    left = left.subspan(count);
  }
  return parts;
}

Result<CudaStream> make_green_stream(const DriverFunctions& driver, const GreenPart& part,
                                     const std::string& where) {
  CUstream made{};
  PIPEPLAN_CHECK(driver.check(driver.create_stream(&made, part.context.get(), CU_STREAM_NON_BLOCKING, 0),
                              "cuGreenCtxStreamCreate", where));
  return CudaStream(made);
}

std::int64_t smallest_green_part(int device) {
  const auto driver = fetch_driver_functions();
  if (!driver) return 0;
  const auto sms = device_sms(*driver, device, "");
  return sms ? sms->sm.minSmPartitionSize : 0;
}

}  // namespace pipeplan
