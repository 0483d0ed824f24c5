#include "simulator/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/base/json_reader.hpp"

namespace pipeplan {
namespace {

constexpr std::string_view timeline_schema = "pipeplan.timeline/1";

Json span_json(const Span& span) {
  return {{"op", op_text(span.op)},
          {"rank", span.rank.value},
          {"start_ns", span.start.count()},
          {"end_ns", span.end.count()}};
}

Json transfer_json(const Transfer& transfer) {
  return {{"direction", spelt(transfer.direction)},
          {"from", transfer.from.value},
          {"to", transfer.to.value},
          {"micro_batch", transfer.micro_batch.value},
          {"start_ns", transfer.start.count()},
          {"end_ns", transfer.end.count()},
          {"bytes", transfer.bytes.value}};
}

Json memory_json(RankId rank, const RankMemory& memory) {
  Json steps = Json::array();
  for (const MemoryStep& step : memory.steps)
    steps.push_back(
        {{"at_ns", step.at.count()}, {"memory_bytes", step.bytes.value}, {"in_flight", step.in_flight}});
  return {{"rank", rank.value},
          {"peak_in_flight", memory.peak_in_flight},
          {"peak_at_ns", memory.peak_at.count()},
          {"memory_items", memory_items_json(memory.peak)},
          {"steps", std::move(steps)}};
}

template<class IdType>
IdType read_id(ObjectReader& reader, const std::string& key, std::size_t count) {
  return id_of<IdType>(
      static_cast<std::size_t>(reader.integer(key, 0, static_cast<std::int64_t>(count) - 1)));
}

constexpr std::size_t most_ids = 1'000'000'000;

// Reads start_ns and end_ns; `last` is the start before.
template<class Event>
void read_times(ObjectReader& reader, Event& event, Nanoseconds& last) {
  event.start = reader.time("start_ns");
  event.end = reader.time("end_ns");
  if (event.end < event.start)
    reader.fail("end_ns",
                fmt::format("is {}, wanted at least start_ns {}", event.end.count(), event.start.count()));
  if (event.start < last)
    reader.fail("start_ns", fmt::format("is {}, wanted ascending starts, {} is before it",
                                        event.start.count(), last.count()));
  last = event.start;
}

Span read_span(ObjectReader reader, std::size_t ranks, Nanoseconds& last, Nanoseconds makespan) {
  Span span;
  const std::string text = reader.text("op");
  if (const auto op = parse_op(text, ""))
    span.op = *op;
  else
    reader.fail("op", op.error().message);
  span.rank = read_id<RankId>(reader, "rank", ranks);
  read_times(reader, span, last);
  if (span.end > makespan)
    reader.fail("end_ns",
                fmt::format("is {}, wanted at most makespan_ns {}", span.end.count(), makespan.count()));
  reader.done();
  return span;
}

Transfer read_transfer(ObjectReader reader, Nanoseconds& last) {
  Transfer transfer;
  transfer.direction = reader.one_of<Direction>("direction");
  transfer.from = read_id<StageId>(reader, "from", most_ids);
  transfer.to = read_id<StageId>(reader, "to", most_ids);
  transfer.micro_batch = read_id<MicrobatchId>(reader, "micro_batch", most_ids);
  read_times(reader, transfer, last);
  transfer.bytes = reader.bytes("bytes");
  reader.done();
  return transfer;
}

MemoryUse read_memory_items(ObjectReader reader) {
  MemoryUse use;
  for (const auto& [item, name] : spellings(MemoryItem{}))
    use[item] = reader.bytes(std::string(name) + "_bytes");
  reader.done();
  return use;
}

MemoryStep read_step(ObjectReader reader) {
  const MemoryStep step{reader.time("at_ns"), reader.bytes("memory_bytes"), reader.integer("in_flight")};
  reader.done();
  return step;
}

RankMemory read_rank_memory(ObjectReader reader, std::size_t rank) {
  RankMemory memory;
  const std::int64_t seen = reader.integer("rank");
  if (seen != static_cast<std::int64_t>(rank))
    reader.fail("rank", fmt::format("is {}, wanted {}", seen, rank));
  memory.peak_in_flight = reader.integer("peak_in_flight");
  memory.peak_at = reader.time("peak_at_ns");
  memory.peak = read_memory_items(reader.object("memory_items"));
  for (ObjectReader& step : reader.objects("steps")) memory.steps.push_back(read_step(std::move(step)));
  reader.done();
  return memory;
}

}  // namespace

void sort_events(Timeline& timeline) {
  std::ranges::stable_sort(timeline.spans, [](const Span& a, const Span& b) {
    return a.start != b.start ? a.start < b.start : a.rank < b.rank;
  });
  std::ranges::stable_sort(timeline.transfers, [](const Transfer& a, const Transfer& b) {
    if (a.start != b.start) return a.start < b.start;
    return a.from != b.from ? a.from < b.from : a.direction < b.direction;
  });
}

Json memory_items_json(const MemoryUse& use) {
  Json items = Json::object();
  for (const auto& [item, name] : spellings(MemoryItem{}))
    items[std::string(name) + "_bytes"] = use[item].value;
  return items;
}

Json to_json(const Timeline& timeline) {
  Json json{{"schema", timeline_schema},
            {"makespan_ns", timeline.makespan.count()},
            {"iteration_ns", timeline.iteration.count()}};
  Json& spans = json["spans"] = Json::array();
  for (const Span& span : timeline.spans) spans.push_back(span_json(span));
  Json& transfers = json["transfers"] = Json::array();
  for (const Transfer& transfer : timeline.transfers) transfers.push_back(transfer_json(transfer));
  Json& memory = json["memory"] = Json::array();
  for (const RankId rank : ids<RankId>(timeline.memory.size()))
    memory.push_back(memory_json(rank, timeline.memory[rank]));
  return json;
}

Result<Timeline> timeline_from_json(const Json& json, const std::string& source) {
  JsonSource place(source);
  ObjectReader reader(place, json, "");
  reader.expect_schema(std::string(timeline_schema));
  Timeline timeline;
  timeline.makespan = reader.time("makespan_ns");
  timeline.iteration = Nanoseconds{reader.integer("iteration_ns", timeline.makespan.count())};
  std::vector<ObjectReader> memory = reader.objects("memory");
  if (memory.empty()) reader.fail("memory", "is empty, wanted an entry per rank");
  for (std::size_t rank = 0; rank < memory.size(); ++rank)
    timeline.memory.push_back(read_rank_memory(std::move(memory[rank]), rank));

  const std::size_t ranks = std::max<std::size_t>(1, memory.size());
  Nanoseconds last{};
  for (ObjectReader& span : reader.objects("spans"))
    timeline.spans.push_back(read_span(std::move(span), ranks, last, timeline.makespan));
  last = Nanoseconds{0};
  for (ObjectReader& transfer : reader.objects("transfers"))
    timeline.transfers.push_back(read_transfer(std::move(transfer), last));
  reader.done();
  return place.result(std::move(timeline));
}

}  // namespace pipeplan
