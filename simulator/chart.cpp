#include "simulator/chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <utility>

namespace pipeplan {
namespace {

__extension__ using Wide = __int128;

// How each kind of op is drawn: ten characters, one per last digit of the micro-batch, and an ANSI colour.
struct Look {
  std::string_view characters, colour, meaning;
};

constexpr std::size_t kind_count = spellings(OpKind{}).size();
constexpr std::string_view idle_colour = "\x1b[2m", plain_colour = "\x1b[0m";

Look look_of(OpKind kind) {
  switch (kind) {
    case OpKind::forward: return {"0123456789", "\x1b[34m", "0-9 forward"};
    case OpKind::backward: return {"abcdefghij", "\x1b[32m", "a-j backward"};
    case OpKind::backward_input: return {"abcdefghij", "\x1b[32m", "a-j backward for the input"};
    case OpKind::backward_weight: return {"ABCDEFGHIJ", "\x1b[33m", "A-J backward for the weights"};
    case OpKind::recompute: return {"klmnopqrst", "\x1b[36m", "k-t recomputed forward"};
  }
  PIPEPLAN_UNREACHABLE("a kind without a look");
}

// Cuts the makespan into slices. Times are scaled by the number of slices, so that slice i is exactly
// [i * makespan, (i + 1) * makespan).
struct Slices {
  Nanoseconds makespan{};
  std::size_t count = 1;

  [[nodiscard]] Wide scaled(Nanoseconds time) const { return static_cast<Wide>(count) * time.count(); }
  [[nodiscard]] Wide begin(std::size_t slice) const { return static_cast<Wide>(slice) * makespan.count(); }
  [[nodiscard]] std::size_t holding(Nanoseconds time) const {
    return static_cast<std::size_t>(scaled(time) / makespan.count());
  }
  [[nodiscard]] Nanoseconds time_at(std::size_t slice) const {
    return Nanoseconds{static_cast<std::int64_t>(begin(slice) / static_cast<Wide>(count))};
  }
};

// As many slices as fit, but a whole number for each step of the timeline if its steps are wide enough.
Slices cut(const Timeline& timeline, std::size_t most) {
  std::int64_t step = timeline.makespan.count();
  for (const Span& span : timeline.spans)
    step = std::gcd(std::gcd(step, span.start.count()), span.end.count());
  if (step == 0) return {timeline.makespan, 1};
  const auto steps = static_cast<std::uint64_t>(timeline.makespan.count() / step);
  return {timeline.makespan, steps > most ? most : most / steps * steps};
}

// What fills one slice of one rank: the time of each kind, and the op that has the most of its kind.
struct Slice {
  struct Share {
    Wide total = 0, largest = 0;
    MicrobatchId micro_batch;
  };
  std::array<Share, kind_count> shares{};

  void add(const Op& op, Wide time) {
    Share& share = shares[static_cast<std::size_t>(op.kind)];
    share.total += time;
    if (time <= share.largest) return;
    share.largest = time;
    share.micro_batch = op.micro_batch;
  }

  // The kind with the most time, or nothing where the rank idles for longer.
  [[nodiscard]] std::optional<OpKind> fullest(Wide length) const {
    std::size_t best = 0;
    Wide idle = length;
    for (std::size_t kind = 0; kind < kind_count; ++kind) {
      idle -= shares[kind].total;
      if (shares[kind].total > shares[best].total) best = kind;
    }
    if (shares[best].total == 0 || idle > shares[best].total) return std::nullopt;
    return static_cast<OpKind>(best);
  }
};

using Row = std::vector<Slice>;

PerId<RankId, Row> fill_rows(const Timeline& timeline, const Slices& slices) {
  PerId<RankId, Row> rows(timeline.memory.size(), Row(slices.count));
  for (const Span& span : timeline.spans) {
    if (span.start == span.end) continue;
    const Wide start = slices.scaled(span.start), end = slices.scaled(span.end);
    for (std::size_t i = slices.holding(span.start); i < slices.count && slices.begin(i) < end; ++i)
      rows[span.rank][i].add(span.op, std::min(end, slices.begin(i + 1)) - std::max(start, slices.begin(i)));
  }
  return rows;
}

std::string drawn(const Row& row, const Slices& slices, bool colour) {
  std::string text;
  std::string_view colour_now;
  for (const Slice& slice : row) {
    const auto kind = slice.fullest(slices.makespan.count());
    const std::string_view wanted = kind ? look_of(*kind).colour : idle_colour;
    if (colour && wanted != colour_now) text += fmt::format("{}{}", plain_colour, colour_now = wanted);
    if (!kind)
      text += '.';
    else
      text +=
          look_of(*kind).characters[slice.shares[static_cast<std::size_t>(*kind)].micro_batch.index() % 10];
  }
  if (colour) text += plain_colour;
  return text;
}

// Writes `label` at `begin` where it fits with a blank on either side.
void place(std::string& line, std::size_t begin, const std::string& label) {
  if (begin + label.size() > line.size()) return;
  const std::size_t first = begin == 0 ? 0 : begin - 1, end = std::min(begin + label.size() + 1, line.size());
  if (line.find_first_not_of(' ', first) < end) return;
  line.replace(begin, label.size(), label);
}

// A ruler with marks at the quarters, and beneath it the times of those that have room; the end comes first.
std::string axis(const Slices& slices, std::size_t margin) {
  std::string ruler(slices.count, '-'), labels(slices.count, ' ');
  ruler.back() = '+';
  const std::string last = display(slices.makespan);
  if (last.size() <= slices.count) place(labels, slices.count - last.size(), last);
  for (std::size_t quarter = 0; quarter < 4; ++quarter) {
    const std::size_t mark = slices.count * quarter / 4;
    ruler[mark] = '+';
    place(labels, mark, display(slices.time_at(mark)));
  }
  const std::string indent(margin, ' ');
  return indent + ruler + "\n" +
         (labels.find_first_not_of(' ') == std::string::npos ? "" : indent + labels + "\n");
}

std::string legend(const Timeline& timeline, std::size_t width) {
  std::array<bool, kind_count> seen{};
  for (const Span& span : timeline.spans) seen[static_cast<std::size_t>(span.op.kind)] = true;
  std::vector<std::string> entries;
  for (const auto& entry : spellings(OpKind{}))
    if (seen[static_cast<std::size_t>(entry.value)]) entries.emplace_back(look_of(entry.value).meaning);
  entries.emplace_back(". idle");
  entries.emplace_back("(last digit of the micro-batch)");
  std::string text, line;
  for (const std::string& entry : entries) {
    if (entry.size() > width) continue;
    if (!line.empty() && line.size() + 2 + entry.size() > width) text += std::exchange(line, "") + "\n";
    line += (line.empty() ? "" : "  ") + entry;
  }
  return text + line + (line.empty() ? "" : "\n");
}

}  // namespace

std::string text_chart(const Timeline& timeline, std::size_t width, bool colour) {
  const std::size_t ranks = timeline.memory.size();
  const std::size_t digits = fmt::format("{}", ranks == 0 ? 0 : ranks - 1).size();
  const std::size_t margin = std::string_view("rank ").size() + digits + 1;
  const Slices slices = cut(timeline, width > margin ? width - margin : 1);
  const PerId<RankId, Row> rows = fill_rows(timeline, slices);
  std::string text;
  for (const RankId rank : ids<RankId>(ranks))
    text += fmt::format("rank {:>{}} {}\n", rank.value, digits, drawn(rows[rank], slices, colour));
  return text + axis(slices, margin) + legend(timeline, width);
}

}  // namespace pipeplan
