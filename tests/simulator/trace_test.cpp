#include "simulator/trace.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "simulator/simulate.hpp"
#include "tests/simulator/pipelines.hpp"

using namespace pipeplan;

namespace {

// Whole ns from the microseconds of the document, which must not lose any.
std::int64_t ns(const Json& microseconds) {
  const double value = microseconds.get<double>() * 1000;
  CHECK(std::abs(value - std::round(value)) < 1e-3);
  return std::llround(value);
}

using Track = std::pair<std::int64_t, std::int64_t>;

Track track_of(const Json& event) {
  return {event["pid"].get<std::int64_t>(), event["tid"].get<std::int64_t>()};
}

struct Trace {
  Timeline timeline;
  std::vector<Json> events;  // as a viewer reads them, from text

  [[nodiscard]] std::vector<Json> with_phase(const std::string& phase) const {
    std::vector<Json> found;
    for (const Json& event : events)
      if (event["ph"] == phase) found.push_back(event);
    return found;
  }
};

Trace random_trace(std::uint64_t seed) {
  test::Random random(seed);
  const std::int64_t stages = random.between(1, 5);
  const Schedule schedule = test::random_schedule(random, stages);
  Trace trace{simulate(schedule, test::random_costs(random, stages)).value(), {}};
  const auto document = parse_json(document_text(trace_events(trace.timeline, "a title")), "trace.json");
  REQUIRE(document.has_value());
  CHECK((*document)["displayTimeUnit"] == "ns");
  for (const Json& event : (*document)["traceEvents"]) trace.events.push_back(event);
  return trace;
}

}  // namespace

TEST_CASE("trace: every op is there once, on the compute track of its rank, to the nanosecond") {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    const Trace trace = random_trace(seed);
    std::map<std::string, Span> spans;
    for (const Span& span : trace.timeline.spans) spans[op_text(span.op)] = span;
    std::size_t seen = 0;
    for (const Json& event : trace.with_phase("X")) {
      CHECK(ns(event["ts"]) + ns(event["dur"]) <= trace.timeline.makespan.count());
      if (event["tid"] != 0) continue;
      ++seen;
      REQUIRE(spans.contains(event["name"]));
      const Span span = spans[event["name"]];
      spans.erase(event["name"]);
      CHECK(ns(event["ts"]) == span.start.count());
      CHECK(ns(event["dur"]) == (span.end - span.start).count());
      CHECK(event["pid"] == span.rank.value);
      CHECK(event["args"]["micro_batch"] == span.op.micro_batch.value);
      CHECK(event["args"]["stage"] == span.op.stage.value);
    }
    CHECK(spans.empty());
    CHECK(seen == trace.timeline.spans.size());
  }
}

TEST_CASE("trace: events of a track come in ascending time and never overlap") {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    const Trace trace = random_trace(seed);
    std::map<Track, std::int64_t> free_at;
    for (const Json& event : trace.with_phase("X")) {
      std::int64_t& free = free_at[track_of(event)];
      CHECK(ns(event["ts"]) >= free);
      free = ns(event["ts"]) + ns(event["dur"]);
    }
  }
}

TEST_CASE("trace: every transfer is sent once and received once, with one arrow from the one to the other") {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    const Trace trace = random_trace(seed);
    std::size_t sent = 0, received = 0;
    std::set<std::pair<Track, std::int64_t>> slices;
    for (const Json& event : trace.with_phase("X")) {
      sent += event["cat"] == "send";
      received += event["cat"] == "receive";
      slices.insert({track_of(event), ns(event["ts"])});
    }
    CHECK(sent == trace.timeline.transfers.size());
    CHECK(received == trace.timeline.transfers.size());

    std::map<std::int64_t, Json> begins;
    for (const Json& event : trace.with_phase("s")) {
      CHECK(slices.contains({track_of(event), ns(event["ts"])}));
      CHECK(begins.emplace(event["id"].get<std::int64_t>(), event).second);
    }
    for (const Json& event : trace.with_phase("f")) {
      CHECK(event["bp"] == "e");
      CHECK(slices.contains({track_of(event), ns(event["ts"])}));
      const auto begin = begins.find(event["id"].get<std::int64_t>());
      REQUIRE(begin != begins.end());
      CHECK(begin->second["pid"] != event["pid"]);
      begins.erase(begin);
    }
    CHECK(begins.empty());
  }
}

TEST_CASE("trace: counters repeat the memory steps, and every track has a name") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    const Trace trace = random_trace(seed);
    std::vector<std::int64_t> bytes, in_flight;
    for (const Json& event : trace.with_phase("C")) {
      if (event["name"] == "memory_bytes")
        bytes.push_back(event["args"]["memory_bytes"]);
      else
        in_flight.push_back(event["args"]["in_flight"]);
    }
    std::vector<std::int64_t> expected_bytes, expected_in_flight;
    for (const RankMemory& memory : trace.timeline.memory)
      for (const MemoryStep& step : memory.steps) {
        expected_bytes.push_back(step.bytes.value);
        expected_in_flight.push_back(step.in_flight);
      }
    CHECK(bytes == expected_bytes);
    CHECK(in_flight == expected_in_flight);

    std::set<Track> named;
    for (const Json& event : trace.with_phase("M"))
      if (event["name"] == "thread_name") named.insert(track_of(event));
    for (const Json& event : trace.with_phase("X")) CHECK(named.contains(track_of(event)));
  }
}
