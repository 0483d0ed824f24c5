#include "simulator/chart.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>

#include "simulator/simulate.hpp"
#include "tests/simulator/pipelines.hpp"

using namespace pipeplan;

namespace {

Timeline uniform(ScheduleKind kind, std::int64_t stages, std::int64_t micro_batches) {
  return simulate(make_schedule(kind, stages, micro_batches),
                  test::uniform_costs(stages, test::stage_times(1000, 1000, 1000)))
      .value();
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string without_colour(const std::string& text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b')
      i = text.find('m', i);
    else
      plain += text[i];
  }
  return plain;
}

}  // namespace

TEST_CASE("text_chart: 1f1b on four ranks with eight micro-batches") {
  CHECK(text_chart(uniform(ScheduleKind::one_f_one_b, 4, 8), 80, false) ==
        "rank 0 00112233............aaaa44bbbb55cccc66dddd77eeee..ffff..gggg..hhhh\n"
        "rank 1 ..001122........aaaa33bbbb44cccc55dddd66eeee77ffff..gggg..hhhh....\n"
        "rank 2 ....0011....aaaa22bbbb33cccc44dddd55eeee66ffff77gggg..hhhh........\n"
        "rank 3 ......00aaaa11bbbb22cccc33dddd44eeee55ffff66gggg77hhhh............\n"
        "       +---------------+----------------+---------------+---------------+\n"
        "       0 ns            8 us             16.5 us         24.5 us     33 us\n"
        "0-9 forward  a-j backward  . idle  (last digit of the micro-batch)\n");
}

TEST_CASE("text_chart: gpipe at one column per forward") {
  CHECK(text_chart(uniform(ScheduleKind::gpipe, 2, 3), 20, false) ==
        "rank 0 012...ccbbaa\n"
        "rank 1 .012ccbbaa..\n"
        "       +--+--+--+-+\n"
        "       0 ns   12 us\n"
        "0-9 forward\n"
        "a-j backward  . idle\n");
}

TEST_CASE("text_chart: no line of time is wider than asked, and every rank has its row") {
  for (const std::int64_t ranks : {1, 3, 12, 300})
    for (const std::size_t width : {12U, 20U, 41U, 80U, 200U}) {
      INFO("ranks=", ranks, " width=", width);
      const auto lines = lines_of(text_chart(uniform(ScheduleKind::one_f_one_b, ranks, 5), width, false));
      for (const std::string& line : lines) CHECK(line.size() <= width);
      const auto rows = std::count_if(lines.begin(), lines.end(),
                                      [](const std::string& line) { return line.starts_with("rank "); });
      CHECK(rows == ranks);
    }
}

TEST_CASE("text_chart: the narrowest chart is one slice of time wide") {
  for (const std::size_t width : {0U, 1U, 7U, 8U})
    CHECK(lines_of(text_chart(uniform(ScheduleKind::gpipe, 1, 3), width, false))[0].size() == 7 + 1);
}

TEST_CASE("text_chart: a timeline without time is drawn idle") {
  const Timeline timeline =
      simulate(make_schedule(ScheduleKind::gpipe, 2, 2), test::uniform_costs(2, test::stage_times(0, 0, 0)))
          .value();
  CHECK(text_chart(timeline, 60, false) ==
        "rank 0 .\n"
        "rank 1 .\n"
        "       +\n"
        "0-9 forward  a-j backward  . idle\n(last digit of the micro-batch)\n");
  CHECK_FALSE(text_chart(Timeline{}, 60, false).empty());
}

TEST_CASE("text_chart: a slice shows what fills most of it, and idle only where that is more") {
  // One rank, F 1 ns, X 3 ns: of two slices of 2 ns the first is half forward, half backward; forward comes
  // first.
  const Timeline even =
      simulate(make_schedule(ScheduleKind::gpipe, 1, 1), test::uniform_costs(1, test::stage_times(1, 3, 0)))
          .value();
  CHECK(lines_of(text_chart(even, 7 + 2, false))[0] == "rank 0 0a");
  CHECK(lines_of(text_chart(even, 7 + 1, false))[0] == "rank 0 a");
  CHECK(lines_of(text_chart(even, 7 + 4, false))[0] == "rank 0 0aaa");
  // Of the ops of one kind the longest gives the character, here the second forward of three: a hand-made
  // timeline.
  Timeline uneven = even;
  uneven.makespan = Nanoseconds{10};
  uneven.spans.clear();
  for (const auto& [start, end] : {std::pair(0, 2), std::pair(2, 7), std::pair(7, 10)})
    uneven.spans.push_back({{OpKind::forward, StageId{0}, id_of<MicrobatchId>(uneven.spans.size())},
                            RankId{0},
                            Nanoseconds{start},
                            Nanoseconds{end}});
  CHECK(lines_of(text_chart(uneven, 7 + 1, false))[0] == "rank 0 1");
  uneven.spans.resize(1);
  uneven.spans[0].end = Nanoseconds{5};  // as long as the rank idles
  CHECK(lines_of(text_chart(uneven, 7 + 1, false))[0] == "rank 0 0");
  // Two ranks with a long latency: rank 1 idles for most of the only slice.
  const Timeline late = simulate(make_schedule(ScheduleKind::gpipe, 2, 1),
                                 test::uniform_costs(2, test::stage_times(1, 1, 0), 50))
                            .value();
  CHECK(lines_of(text_chart(late, 7 + 1, false))[1] == "rank 1 .");
}

TEST_CASE("text_chart: micro-batches count by their last digit, and every kind of op has its own letters") {
  CHECK(text_chart(uniform(ScheduleKind::one_f_one_b, 1, 12), 7 + 36, false).find("8ii9jj0aa1bb") !=
        std::string::npos);
  Timeline timeline;
  timeline.memory.push_back({});
  for (const OpKind kind :
       {OpKind::forward, OpKind::recompute, OpKind::backward_input, OpKind::backward_weight}) {
    timeline.spans.push_back({{kind, {}, {}}, {}, timeline.makespan, timeline.makespan + Nanoseconds{1}});
    timeline.makespan += Nanoseconds{1};
  }
  CHECK(lines_of(text_chart(timeline, 7 + 4, false))[0] == "rank 0 0kaA");
}

TEST_CASE("text_chart: colours add escape sequences and change nothing else") {
  const Timeline timeline = uniform(ScheduleKind::one_f_one_b, 4, 8);
  const std::string coloured = text_chart(timeline, 80, true);
  CHECK(without_colour(coloured) == text_chart(timeline, 80, false));
  CHECK(coloured.find("\x1b[34m") != std::string::npos);
  CHECK(text_chart(timeline, 80, false).find('\x1b') == std::string::npos);
}
