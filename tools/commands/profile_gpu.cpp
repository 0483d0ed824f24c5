#include "tools/commands/profile_gpu.hpp"

#include <fmt/format.h>

#include <charconv>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "profiler/gpu/reduce.hpp"

namespace pipeplan {

Result<std::int64_t> parse_sm_count(const std::string& text, const std::string& flag) {
  std::int64_t count = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), count);
  const bool suffixed = std::string_view(end) == "sm";
  if (status == std::errc{} && suffixed && count >= 1) return count;
  return bad_usage(
      fmt::format("{} is '{}', wanted a number of multiprocessors with its suffix, as 32sm", flag, text));
}

void GpuProfileFlags::declare(CLI::App& app) {
  const auto add = [&](const char* flag, auto& value, const char* help) {
    CLI::Option* option = app.add_option(flag, value, help)->group("cuda");
    options_.push_back(option);
    return option;
  };
  add("--gpu", gpu_, "number of the GPU, as 'pipeplan show devices' has it")->capture_default_str();
  add("--partition", partition_, "measure inside a part of the GPU with so many multiprocessors, as 32sm");
  add("--save-trace", trace_, "file to keep the recorded kernels in, for --from-trace");
  add("--probe", probe_count_,
      "also measure links and interference between so many parts (GPUs, without --partition)");
  add("--save-cluster", cluster_, "file to write what --probe finds to, for 'pipeplan plan --cluster'");
}

std::string GpuProfileFlags::first_given() const {
  for (const CLI::Option* option : options_)
    if (option->count() > 0) return option->get_name();
  return {};
}

Result<void> GpuProfileFlags::apply(ProfileOptions& options) const {
  if (options.backend != Backend::cuda) {
    if (const std::string flag = first_given(); !flag.empty())
      return bad_usage(fmt::format("{} means nothing for --backend {}", flag, spelt(options.backend)),
                       "give --backend cuda");
    return {};
  }
  if (gpu_ < 0) return bad_usage(fmt::format("--gpu is {}, wanted at least 0", gpu_));
  constexpr std::int64_t most_parts = 64;
  if (probe_count_ != 0 && (probe_count_ < 2 || probe_count_ > most_parts))
    return bad_usage(fmt::format("--probe is {}, wanted 2 to {}", probe_count_, most_parts));
  if (!cluster_.empty() && probe_count_ == 0)
    return bad_usage("--save-cluster needs the links of a probe", "give --probe 2 or more");
  options.gpu = gpu_;
  if (partition_.empty()) return {};
  PIPEPLAN_TRY(sms, parse_sm_count(partition_, "--partition"));
  options.partition_sms = sms;
  return {};
}

Result<std::optional<LinkProbe>> GpuProfileFlags::probe(const ModelGraph& model,
                                                        const ProfileOptions& options,
                                                        Profiling& profiling) const {
  if (probe_count_ == 0) return std::optional<LinkProbe>();
  ProbeOptions wanted;
  wanted.count = probe_count_;
  wanted.partition_sms = options.partition_sms;
  wanted.gpu = options.gpu;
  wanted.micro_batch_size = profiled_sizes(profiling.profile).back();
  PIPEPLAN_TRY(backend, cuda_backend());
  PIPEPLAN_TRY(found, probe_links(model, wanted, *backend));
  if (found.interference) {
    const std::string factor = fmt::format("{:.3f}", found.interference->factor);
    profiling.profile.source.settings.emplace_back(interference_setting, factor);
    if (profiling.recording)
      profiling.recording->outline.source.settings.emplace_back(interference_setting, factor);
  }
  if (!cluster_.empty())
    PIPEPLAN_CHECK(write_text_file(cluster_, document_text(to_json(probed_cluster(found)))));
  return std::optional(std::move(found));
}

Result<void> GpuProfileFlags::save_trace(const Profiling& profiling) const {
  if (trace_.empty()) return {};
  if (!profiling.recording)
    return fail(ErrorCode::unavailable, trace_,
                "there is no trace to write: the times come from events, not from recorded kernels");
  return write_text_file(trace_, document_text(to_json(*profiling.recording)));
}

Result<Profiling> profile_of_trace(const std::string& path) {
  PIPEPLAN_TRY(json, read_json_file(path));
  PIPEPLAN_TRY(recording, gpu_recording_from_json(json, source_name(path)));
  PIPEPLAN_TRY(reduced, reduce(recording, source_name(path)));
  Profiling profiling;
  profiling.profile = std::move(reduced.profile);
  profiling.warnings = std::move(reduced.warnings);
  return profiling;
}

bool is_fabricated(const Profile& profile) { return profile.source.setting(trace_setting) == "fabricated"; }

}  // namespace pipeplan
