#include "simulator/trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

namespace pipeplan {
namespace {

// The format counts in microseconds; a double holds whole ns of them exactly enough for a hundred days.
double microseconds(Nanoseconds time) { return static_cast<double>(time.count()) / 1000.0; }

Json metadata(const std::string& name, RankId rank, int track, const std::string& key, Json value) {
  return {
      {"name", name}, {"ph", "M"}, {"pid", rank.value}, {"tid", track}, {"args", {{key, std::move(value)}}}};
}

constexpr int compute_track = 0;

std::string_view category(OpKind kind) {
  switch (kind) {
    case OpKind::forward: return "forward";
    case OpKind::backward: return "backward";
    case OpKind::backward_input: return "backward_input";
    case OpKind::backward_weight: return "backward_weight";
    case OpKind::recompute: return "recompute";
  }
  PIPEPLAN_UNREACHABLE("a kind without a category");
}

Json complete_event(std::string name, std::string_view kind, RankId rank, int track, Nanoseconds start,
                    Nanoseconds end, Json arguments) {
  return {{"name", std::move(name)},
          {"cat", kind},
          {"ph", "X"},
          {"pid", rank.value},
          {"tid", track},
          {"ts", microseconds(start)},
          {"dur", microseconds(end - start)},
          {"args", std::move(arguments)}};
}

// Tracks of one rank for sends or for receives. Events of a track may not overlap, but transfers do (latency;
// both directions): each takes the first track that is free again.
class Lanes {
 public:
  std::size_t take(Nanoseconds start, Nanoseconds end) {
    const auto free =
        std::find_if(free_at_.begin(), free_at_.end(), [&](Nanoseconds at) { return at <= start; });
    const auto lane = static_cast<std::size_t>(free - free_at_.begin());
    if (free == free_at_.end())
      free_at_.push_back(end);
    else
      *free = end;
    return lane;
  }
  [[nodiscard]] std::size_t count() const { return free_at_.size(); }

 private:
  std::vector<Nanoseconds> free_at_;
};

int send_track(std::size_t lane) { return static_cast<int>(1 + 2 * lane); }
int receive_track(std::size_t lane) { return static_cast<int>(2 + 2 * lane); }

class TraceWriter {
 public:
  explicit TraceWriter(const Timeline& timeline)
      : timeline_(timeline), sends_(timeline.memory.size()), receives_(timeline.memory.size()) {
    for (const Span& span : timeline.spans) homes_[span.op.stage] = span.rank;
  }

  Json write() {
    for (const Span& span : timeline_.spans) add_op(span);
    for (std::size_t i = 0; i < timeline_.transfers.size(); ++i) add_transfer(timeline_.transfers[i], i);
    for (const RankId rank : ids<RankId>(timeline_.memory.size())) add_counters(rank);
    Json events = track_names();
    for (Json& event : events_) events.push_back(std::move(event));
    return events;
  }

 private:
  void add_op(const Span& span) {
    events_.push_back(complete_event(
        op_text(span.op), category(span.op.kind), span.rank, compute_track, span.start, span.end,
        {{"stage", span.op.stage.value}, {"micro_batch", span.op.micro_batch.value}}));
  }

  void add_transfer(const Transfer& transfer, std::size_t number) {
    const auto from = homes_.find(transfer.from), to = homes_.find(transfer.to);
    if (from == homes_.end() || to == homes_.end()) return;  // a timeline need not show all stages
    const int sent = send_track(sends_[from->second].take(transfer.start, transfer.end));
    const int received = receive_track(receives_[to->second].take(transfer.start, transfer.end));
    const Json arguments{{"micro_batch", transfer.micro_batch.value},
                         {"from_stage", transfer.from.value},
                         {"to_stage", transfer.to.value},
                         {"bytes", transfer.bytes.value}};
    const std::string name = fmt::format("{} {}", spelt(transfer.direction), transfer.micro_batch.value);
    events_.push_back(
        complete_event(name, "send", from->second, sent, transfer.start, transfer.end, arguments));
    events_.push_back(
        complete_event(name, "receive", to->second, received, transfer.start, transfer.end, arguments));
    // An arrow ends in the slice that encloses its time; at its very end a slice does not.
    add_flow("s", number, from->second, sent, transfer.start);
    add_flow("f", number, to->second, received, transfer.start);
  }

  void add_flow(std::string_view phase, std::size_t number, RankId rank, int track, Nanoseconds at) {
    Json event{{"name", "transfer"}, {"cat", "transfer"}, {"ph", phase},           {"id", number},
               {"pid", rank.value},  {"tid", track},      {"ts", microseconds(at)}};
    if (phase == "f") event["bp"] = "e";
    events_.push_back(std::move(event));
  }

  void add_counters(RankId rank) {
    for (const MemoryStep& step : timeline_.memory[rank].steps) {
      add_counter("memory_bytes", rank, step.at, step.bytes.value);
      add_counter("in_flight", rank, step.at, step.in_flight);
    }
  }
  void add_counter(const char* name, RankId rank, Nanoseconds at, std::int64_t value) {
    events_.push_back({{"name", name},
                       {"ph", "C"},
                       {"pid", rank.value},
                       {"ts", microseconds(at)},
                       {"args", {{name, value}}}});
  }

  [[nodiscard]] Json track_names() const {
    Json events = Json::array();
    const auto name_track = [&](RankId rank, int track, const std::string& name) {
      events.push_back(metadata("thread_name", rank, track, "name", name));
      events.push_back(metadata("thread_sort_index", rank, track, "sort_index", track));
    };
    const auto numbered = [](std::string_view name, std::size_t lane) {
      return lane == 0 ? std::string(name) : fmt::format("{} {}", name, lane + 1);
    };
    for (const RankId rank : ids<RankId>(timeline_.memory.size())) {
      events.push_back(metadata("process_name", rank, 0, "name", fmt::format("rank {}", rank.value)));
      events.push_back(metadata("process_sort_index", rank, 0, "sort_index", rank.value));
      name_track(rank, compute_track, "compute");
      for (std::size_t i = 0; i < sends_[rank].count(); ++i)
        name_track(rank, send_track(i), numbered("send", i));
      for (std::size_t i = 0; i < receives_[rank].count(); ++i)
        name_track(rank, receive_track(i), numbered("receive", i));
    }
    return events;
  }

  const Timeline& timeline_;
  std::map<StageId, RankId> homes_;
  PerId<RankId, Lanes> sends_, receives_;
  std::vector<Json> events_;
};

}  // namespace

Json trace_events(const Timeline& timeline, const std::string& title) {
  return {{"traceEvents", TraceWriter(timeline).write()},
          {"displayTimeUnit", "ns"},
          {"otherData", {{"title", title}, {"tool", "pipeplan"}}}};
}

}  // namespace pipeplan
