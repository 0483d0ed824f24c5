#include "tools/cli/freshness.hpp"

#include <fmt/format.h>

namespace pipeplan {

Result<void> check_freshness(const Plan& plan, const Profile& profile, bool force, const Terminal& terminal) {
  const std::string digest = profile_digest(profile);
  if (plan.profile_digest == digest) return {};
  const std::string what =
      fmt::format("the plan was made for another profile ({}, this one is {})", plan.profile_digest, digest);
  if (!force) return bad_input({}, what, "plan again, or --force to go on");
  terminal.warning({WarningCode::stale_profile, what, ""});
  return {};
}

}  // namespace pipeplan
