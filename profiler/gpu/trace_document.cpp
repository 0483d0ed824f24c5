// The document pipeplan.gpu-trace/1: written and read here, field by field in the same order. What a run has
// by the ten thousand (work, launches, memory events) stands in columns, and names of kernels in a list of
// their own, so that a recording stays a few megabytes.

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "models/base/json_reader.hpp"
#include "profiler/gpu/trace.hpp"

namespace pipeplan {
namespace {

constexpr const char* trace_schema = "pipeplan.gpu-trace/1";
constexpr std::int64_t largest_id = std::numeric_limits<std::uint32_t>::max();
constexpr std::int64_t largest_layer = largest_id;
constexpr std::int64_t largest_iteration = 255;
constexpr std::int64_t largest_micro_batch = 65535;
constexpr const char* allocation = "allocation";
constexpr const char* release = "release";

Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

template<class Record, class Value>
Json column(const std::vector<Record>& records, Value value) {
  Json json = Json::array();
  for (const Record& record : records) json.push_back(value(record));
  return json;
}

std::vector<std::string> work_names(const std::vector<GpuWork>& work) {
  std::vector<std::string> names;
  for (const GpuWork& record : work) names.push_back(record.name);
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

Json work_json(const std::vector<GpuWork>& work, const std::vector<std::string>& names) {
  Json json = Json::object();
  json["kind"] = column(work, [](const GpuWork& record) { return spelt(record.kind); });
  json["name"] = column(work, [&](const GpuWork& record) {
    return std::ranges::lower_bound(names, record.name) - names.begin();
  });
  json["start_ns"] = column(work, [](const GpuWork& record) { return record.start; });
  json["end_ns"] = column(work, [](const GpuWork& record) { return record.end; });
  json["correlation"] = column(work, [](const GpuWork& record) { return record.correlation; });
  json["context"] = column(work, [](const GpuWork& record) { return record.context; });
  json["stream"] = column(work, [](const GpuWork& record) { return record.stream; });
  json["bytes"] = column(work, [](const GpuWork& record) { return record.bytes; });
  return json;
}

Json launches_json(const std::vector<GpuLaunch>& launches) {
  const auto label = [](const GpuLaunch& launch) { return unpack(launch.tag).label; };
  Json json = Json::object();
  json["correlation"] = column(launches, [](const GpuLaunch& launch) { return launch.correlation; });
  json["iteration"] = column(launches, [](const GpuLaunch& launch) { return unpack(launch.tag).iteration; });
  json["layer"] = column(launches, [&](const GpuLaunch& launch) { return label(launch).layer; });
  json["micro_batch"] = column(launches, [&](const GpuLaunch& launch) { return label(launch).micro_batch; });
  json["pass"] = column(launches, [&](const GpuLaunch& launch) { return spelt(label(launch).pass); });
  json["at_ns"] = column(launches, [](const GpuLaunch& launch) { return launch.at; });
  return json;
}

Json memory_json(const std::vector<GpuMemoryEvent>& events) {
  Json json = Json::object();
  json["event"] = column(events, [](const GpuMemoryEvent& e) { return e.allocation ? allocation : release; });
  json["address"] = column(events, [](const GpuMemoryEvent& e) { return e.address; });
  json["bytes"] = column(events, [](const GpuMemoryEvent& e) { return e.bytes; });
  json["at_ns"] = column(events, [](const GpuMemoryEvent& e) { return e.at; });
  json["correlation"] = column(events, [](const GpuMemoryEvent& e) { return e.correlation; });
  json["pool_bytes"] = column(events, [](const GpuMemoryEvent& e) { return e.pool_bytes; });
  return json;
}

Json iteration_json(const GpuIteration& iteration) {
  Json json = Json::object();
  json["number"] = iteration.number;
  json["start_ns"] = iteration.start;
  json["end_ns"] = iteration.end;
  return json;
}

Json overhead_json(const GpuOverhead& overhead) {
  Json json = Json::object();
  json["kind"] = text_or_null(overhead.kind);
  json["start_ns"] = overhead.start;
  json["end_ns"] = overhead.end;
  return json;
}

Json trace_json(const GpuTrace& trace) {
  const std::vector<std::string> names = work_names(trace.work);
  Json json = Json::object();
  json["device"] = text_or_null(trace.device);
  json["partition"] = text_or_null(trace.partition);
  json["fabricated"] = trace.fabricated;
  json["micro_batch_size"] = trace.micro_batch_size;
  json["plain_iteration_ns"] = nullptr;
  if (trace.plain_iteration) json["plain_iteration_ns"] = trace.plain_iteration->count();
  json["dropped_records"] = trace.dropped_records;
  json["iterations"] = column(trace.iterations, iteration_json);
  json["names"] = names;
  json["work"] = work_json(trace.work, names);
  json["launches"] = launches_json(trace.launches);
  json["memory"] = memory_json(trace.memory);
  json["overheads"] = column(trace.overheads, overhead_json);
  return json;
}

// Reads the columns of one object; all must be as long as the first.
class ColumnReader {
 public:
  explicit ColumnReader(ObjectReader reader) : reader_(std::move(reader)) {}

  std::vector<std::int64_t> integers(const std::string& key, std::int64_t most = largest_document_integer) {
    std::vector<std::int64_t> column = reader_.integers(key);
    for (std::size_t i = 0; i < column.size(); ++i)
      if (column[i] > most) refuse(key, i, fmt::format("is {}, wanted at most {}", column[i], most));
    return of_one_length(key, std::move(column));
  }

  std::vector<std::uint32_t> ids(const std::string& key) {
    std::vector<std::uint32_t> column;
    for (const std::int64_t value : integers(key, largest_id))
      column.push_back(static_cast<std::uint32_t>(value));
    return column;
  }

  template<class Enum>
  std::vector<Enum> words(const std::string& key) {
    std::vector<Enum> column;
    for (const std::string& text : texts(key, all_spellings<Enum>()))
      column.push_back(from_spelling<Enum>(text).value_or(Enum{}));
    return column;
  }

  std::vector<std::string> texts(const std::string& key, const std::vector<std::string>& allowed) {
    std::vector<std::string> column = reader_.texts(key);
    for (std::size_t i = 0; i < column.size(); ++i)
      if (std::ranges::find(allowed, column[i]) == allowed.end())
        refuse(key, i, fmt::format("is '{}', wanted one of {}", column[i], fmt::join(allowed, ", ")));
    return of_one_length(key, std::move(column));
  }

  void refuse(const std::string& key, std::size_t row, const std::string& message) {
    reader_.source().fail(fmt::format("{}/{}/{}", reader_.path(), key, row), message);
  }

  // How many rows there are; none after an error, when columns may have lost entries.
  std::size_t finish() {
    reader_.done();
    return reader_.source().failed() ? 0 : length_.value_or(0);
  }

 private:
  template<class T>
  std::vector<T> of_one_length(const std::string& key, std::vector<T> column) {
    if (!length_) length_ = column.size();
    if (column.size() != *length_)
      reader_.fail(key, fmt::format("has {} entries, the column before it has {}", column.size(), *length_));
    return column;
  }

  ObjectReader reader_;
  std::optional<std::size_t> length_;
};

std::vector<GpuWork> read_work(ColumnReader reader, const std::vector<std::string>& names) {
  const auto kinds = reader.words<GpuWorkKind>("kind");
  const auto name_places = reader.integers("name");
  const auto starts = reader.integers("start_ns"), ends = reader.integers("end_ns");
  const auto correlations = reader.ids("correlation"), contexts = reader.ids("context");
  const auto streams = reader.ids("stream");
  const auto bytes = reader.integers("bytes");
  std::vector<GpuWork> work(reader.finish());
  for (std::size_t i = 0; i < work.size(); ++i) {
    const auto place = static_cast<std::size_t>(name_places[i]);
    if (place >= names.size())
      reader.refuse("name", i, fmt::format("is {}, but there are {} names", place, names.size()));
    work[i] = {.kind = kinds[i],
               .name = place < names.size() ? names[place] : std::string(),
               .start = starts[i],
               .end = ends[i],
               .correlation = correlations[i],
               .context = contexts[i],
               .stream = streams[i],
               .bytes = bytes[i]};
  }
  return work;
}

std::vector<GpuLaunch> read_launches(ColumnReader reader) {
  const auto correlations = reader.ids("correlation");
  const auto iterations = reader.integers("iteration", largest_iteration);
  const auto layers = reader.integers("layer", largest_layer);
  const auto micro_batches = reader.integers("micro_batch", largest_micro_batch);
  const auto passes = reader.words<LayerPass>("pass");
  const auto times = reader.integers("at_ns");
  std::vector<GpuLaunch> launches(reader.finish());
  for (std::size_t i = 0; i < launches.size(); ++i) {
    const LaunchLabel label{.layer = layers[i], .pass = passes[i], .micro_batch = micro_batches[i]};
    launches[i] = {correlations[i], pack({iterations[i], label}), times[i]};
  }
  return launches;
}

std::vector<GpuMemoryEvent> read_memory(ColumnReader reader) {
  const auto events = reader.texts("event", {allocation, release});
  const auto addresses = reader.integers("address"), bytes = reader.integers("bytes");
  const auto times = reader.integers("at_ns");
  const auto correlations = reader.ids("correlation");
  const auto pools = reader.integers("pool_bytes");
  std::vector<GpuMemoryEvent> memory(reader.finish());
  for (std::size_t i = 0; i < memory.size(); ++i)
    memory[i] = {.allocation = events[i] == allocation,
                 .address = static_cast<std::uint64_t>(addresses[i]),
                 .bytes = bytes[i],
                 .at = times[i],
                 .correlation = correlations[i],
                 .pool_bytes = pools[i]};
  return memory;
}

std::vector<GpuIteration> read_iterations(ObjectReader& trace) {
  std::vector<GpuIteration> iterations;
  for (ObjectReader& reader : trace.objects("iterations")) {
    GpuIteration iteration;
    iteration.number = reader.integer("number");
    iteration.start = reader.integer("start_ns");
    iteration.end = reader.integer("end_ns");
    reader.done();
    if (iteration.end < iteration.start)
      reader.fail("end_ns", fmt::format("is {}, before start_ns ({})", iteration.end, iteration.start));
    if (!iterations.empty() && iteration.number <= iterations.back().number)
      reader.fail("number", fmt::format("is {} after {}, wanted ascending numbers", iteration.number,
                                        iterations.back().number));
    if (!iterations.empty() && iteration.start < iterations.back().end)
      reader.fail("start_ns", fmt::format("is {}, before the iteration before it ends ({})", iteration.start,
                                          iterations.back().end));
    iterations.push_back(iteration);
  }
  return iterations;
}

std::vector<GpuOverhead> read_overheads(ObjectReader& trace) {
  std::vector<GpuOverhead> overheads;
  for (ObjectReader& reader : trace.objects("overheads")) {
    GpuOverhead overhead;
    overhead.kind = reader.optional_text("kind").value_or("");
    overhead.start = reader.integer("start_ns");
    overhead.end = reader.integer("end_ns");
    reader.done();
    overheads.push_back(std::move(overhead));
  }
  return overheads;
}

GpuTrace read_trace(ObjectReader reader) {
  GpuTrace trace;
  trace.device = reader.optional_text("device").value_or("");
  trace.partition = reader.optional_text("partition").value_or("");
  trace.fabricated = reader.flag("fabricated", false);
  trace.micro_batch_size = reader.integer("micro_batch_size", 1);
  trace.plain_iteration = reader.optional_time("plain_iteration_ns");
  trace.dropped_records = reader.integer("dropped_records");
  trace.iterations = read_iterations(reader);
  const std::vector<std::string> names = reader.texts("names");
  trace.work = read_work(ColumnReader(reader.object("work")), names);
  trace.launches = read_launches(ColumnReader(reader.object("launches")));
  trace.memory = read_memory(ColumnReader(reader.object("memory")));
  trace.overheads = read_overheads(reader);
  reader.done();
  return trace;
}

// The profile's own reader speaks of places from the profile's root.
Error below_outline(Error error, const std::string& source) {
  const std::string root = fmt::format("{}#", source);
  if (error.where.starts_with(root))
    error.where = fmt::format("{}/outline{}", root, error.where.substr(root.size()));
  else if (error.where == source)
    error.where = fmt::format("{}/outline", root);
  return error;
}

}  // namespace

Json to_json(const GpuRecording& recording) {
  Json json = Json::object();
  json["schema"] = trace_schema;
  json["outline"] = to_json(recording.outline);
  json["traces"] = column(recording.traces, trace_json);
  return json;
}

Result<GpuRecording> gpu_recording_from_json(const Json& json, const std::string& source_name) {
  JsonSource source(source_name);
  ObjectReader document(source, json, "");
  document.expect_schema(trace_schema);
  const Json outline = document.raw("outline");
  GpuRecording recording;
  for (const ObjectReader& reader : document.objects("traces"))
    recording.traces.push_back(read_trace(reader));
  document.done();
  PIPEPLAN_TRY(checked, source.result(std::move(recording)));
  auto profile = profile_from_json(outline, source_name);
  if (!profile) return Failure(below_outline(std::move(profile).error(), source_name));
  checked.outline = *std::move(profile);
  return checked;
}

}  // namespace pipeplan
