#pragma once

// The flags of profile that are about GPUs: which GPU, which part of it, the recorded trace and the probe of
// the links.

#include <optional>
#include <string>
#include <vector>

#include "profiler/gpu/link_probe.hpp"
#include "profiler/profiler.hpp"
#include "tools/cli/terminal.hpp"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace pipeplan {

// "32sm": the suffix is required.
Result<std::int64_t> parse_sm_count(const std::string& text, const std::string& flag);

struct GpuProfileFlags {
  void declare(CLI::App& app);
  // The first of these flags that was given, for who does not want any; empty if none was.
  [[nodiscard]] std::string first_given() const;
  // Puts GPU and partition into `options`; refused unless its backend is cuda, or if they contradict each
  // other.
  [[nodiscard]] Result<void> apply(ProfileOptions& options) const;

  // --probe: measures, notes the interference in the profile, writes the cluster. Empty if not asked for.
  [[nodiscard]] Result<std::optional<LinkProbe>> probe(const ModelGraph& model, const ProfileOptions& options,
                                                       Profiling& profiling) const;
  // --save-trace.
  [[nodiscard]] Result<void> save_trace(const Profiling& profiling) const;

 private:
  std::int64_t gpu_ = 0, probe_count_ = 0;
  std::string partition_, trace_, cluster_;
  std::vector<const CLI::Option*> options_;
};

// The profile of a trace that --save-trace wrote, with its warnings.
Result<Profiling> profile_of_trace(const std::string& path);
// Whether a profile's times are those of a trace that no GPU has recorded.
bool is_fabricated(const Profile& profile);

}  // namespace pipeplan
