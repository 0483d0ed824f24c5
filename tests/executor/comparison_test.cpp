#include "executor/comparison.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

namespace pipeplan {
namespace {

Span span(OpKind kind, std::int32_t stage, std::int32_t k, std::int64_t start, std::int64_t end) {
  return {{kind, StageId{stage}, MicrobatchId{k}}, RankId{stage}, Nanoseconds{start}, Nanoseconds{end}};
}

Timeline one_rank(std::vector<Span> spans, std::int64_t makespan) {
  Timeline timeline;
  timeline.spans = std::move(spans);
  timeline.makespan = timeline.iteration = Nanoseconds{makespan};
  timeline.memory = PerId<RankId, RankMemory>(1);
  return timeline;
}

}  // namespace

TEST_CASE("compare: errors are relative to the measurement, the worst op comes first") {
  const Timeline predicted =
      one_rank({span(OpKind::forward, 0, 0, 0, 10), span(OpKind::backward, 0, 0, 10, 30)}, 30);
  const Timeline measured =
      one_rank({span(OpKind::forward, 0, 0, 0, 20), span(OpKind::backward, 0, 0, 25, 50)}, 50);
  const Comparison comparison = compare(predicted, measured);
  CHECK(comparison.iteration.error_fraction() == doctest::Approx((30.0 - 50.0) / 50.0));
  CHECK(comparison.predicted_bubble_fraction == doctest::Approx(0));
  CHECK(comparison.measured_bubble_fraction == doctest::Approx(1 - (20.0 + 25.0) / 50.0));
  REQUIRE(comparison.ops.size() == 2);
  CHECK(comparison.ops[0].median.error_fraction() == doctest::Approx((10.0 - 20.0) / 20.0));
  REQUIRE(comparison.worst.size() == 2);
  CHECK(op_text(comparison.worst[0].op) == "F0.0");
  CHECK(comparison.order_inversions == 0);
}

TEST_CASE("compare: ops that ran in the other order are counted") {
  const Timeline predicted =
      one_rank({span(OpKind::forward, 0, 0, 0, 1), span(OpKind::forward, 0, 1, 1, 2)}, 2);
  const Timeline measured =
      one_rank({span(OpKind::forward, 0, 1, 0, 1), span(OpKind::forward, 0, 0, 1, 2)}, 2);
  CHECK(compare(predicted, measured).order_inversions == 1);
}

TEST_CASE("compare: memory is equal only item by item") {
  Timeline predicted = one_rank({}, 1), measured = predicted;
  predicted.memory[RankId{0}].peak[MemoryItem::weights] = Bytes{8};
  measured.memory[RankId{0}].peak[MemoryItem::activations] = Bytes{8};
  const Comparison comparison = compare(predicted, measured);
  CHECK(!comparison.memory[RankId{0}].equal());
  CHECK(comparison.memory[RankId{0}].predicted.total() == comparison.memory[RankId{0}].measured.total());
}

TEST_CASE(
    "compare: nothing predicted and nothing measured is no error, something measured alone is 100 percent") {
  CHECK(Compared{}.error_fraction() == 0);
  CHECK(Compared{.predicted = Nanoseconds{5}, .measured = Nanoseconds{0}}.error_fraction() == 1);
}

TEST_CASE("comparison document: times carry ns, fractions are named") {
  const Timeline timeline = one_rank({span(OpKind::forward, 0, 0, 0, 10)}, 10);
  const Json json = to_json(compare(timeline, timeline));
  CHECK(json["schema"] == "pipeplan.comparison/1");
  CHECK(json["iteration"]["predicted_ns"] == 10);
  CHECK(json["ops"][0]["op"] == "F");
  CHECK(json["memory"][0]["equal"] == true);
}

}  // namespace pipeplan
