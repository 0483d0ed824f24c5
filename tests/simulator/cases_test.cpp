// Cases from the field that a simulator must answer, with the costs of each pipeline put together by hand.

#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "simulator/check_schedule.hpp"
#include "simulator/check_timeline.hpp"
#include "simulator/report.hpp"
#include "simulator/simulate.hpp"
#include "tests/simulator/pipelines.hpp"
#include "tests/support/reference.hpp"

using namespace pipeplan;

namespace {

Json read_case(const std::string& name) {
  return read_json_file((test::case_folder() / (name + ".json")).string()).value();
}

constexpr std::int64_t ns_per_us = 1000;

// The times of layers [first, first + count) as one stage.
StageTimes stage_of(const Json& layers, std::size_t first, std::size_t count) {
  StageTimes times;
  for (std::size_t i = first; i < first + count; ++i) {
    times.forward += Nanoseconds{layers[i]["forward_us"].get<std::int64_t>() * ns_per_us};
    times.backward_input += Nanoseconds{layers[i]["backward_us"].get<std::int64_t>() * ns_per_us};
  }
  return times;
}

// `layers` cut into stages of these sizes; without links transfers are free.
PipelineCosts cut(const Json& layers, const std::vector<std::size_t>& sizes, const Json& links = {}) {
  PipelineCosts costs;
  costs.transfers = TransferMode::uncontended;
  std::size_t first = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    costs.times.push_back(stage_of(layers, first, sizes[i]));
    costs.memory.push_back({});
    first += sizes[i];
    if (i + 1 == sizes.size()) break;
    BoundaryCosts boundary;
    boundary.bytes = Bytes{layers[first - 1]["output_bytes"].get<std::int64_t>()};
    if (!links.is_null()) {
      boundary.link.latency = Nanoseconds{links[i]["latency_us"].get<std::int64_t>() * ns_per_us};
      boundary.link.bandwidth =
          BytesPerSecond{links[i]["bandwidth_bytes_per_us"].get<std::int64_t>() * 1'000'000};
    }
    costs.boundaries.push_back(boundary);
  }
  return costs;
}

Report report_of(const Schedule& schedule, const PipelineCosts& costs) {
  return summarize(simulate(schedule, costs).value(), schedule, costs, std::nullopt);
}

}  // namespace

TEST_SUITE("reference") {
  TEST_CASE("case 17: plain 1f1b of four ranks with eight micro-batches") {
    const Json expect = read_case("17-interleaved-warmup-and-memory")["expect"];
    const Json layers = read_case("17-interleaved-warmup-and-memory")["input"]["layers"];
    PipelineCosts costs = cut(layers, {2, 2, 2, 2});
    costs.memory[StageId{0}].activation_per_micro_batch =
        Bytes{2 * layers[0]["activation_bytes"].get<std::int64_t>()};
    const Report report = report_of(make_schedule(ScheduleKind::one_f_one_b, 4, 8), costs);
    CHECK(report.makespan.count() == expect["makespan_us"]["1f1b"].get<std::int64_t>() * ns_per_us);
    CHECK(report.bubble_fraction ==
          doctest::Approx(expect["bubble_fraction"]["1f1b"].get<double>()).epsilon(1e-5));
    CHECK(report.ranks[RankId{0}].peak_memory.total().value == expect["rank0_activation_bytes"]["1f1b"]);
    for (const RankId rank : ids<RankId>(4))
      CHECK(report.ranks[rank].peak_in_flight == expect["plain_1f1b_peak_in_flight"][rank.index()]);
  }

  TEST_CASE("case 20: one or three micro-batches on eight stages run, with a warning") {
    const Json document = read_case("20-one-microbatch-eight-stages");
    const Json& expect = document["expect"];
    const PipelineCosts costs = cut(document["input"]["layers"], std::vector<std::size_t>(8, 1));
    for (const Json& schedule_name : document["input"]["schedules"])
      for (const Json& micro_batches : document["input"]["micro_batches_to_try"]) {
        const auto kind = from_spelling<ScheduleKind>(schedule_name.get<std::string>());
        REQUIRE(kind.has_value());
        const std::string key = "m=" + micro_batches.dump();
        INFO(schedule_name.dump(), " ", key);
        const Report report = report_of(make_schedule(*kind, 8, micro_batches), costs);
        CHECK(report.makespan.count() == expect["makespan_us"][key].get<std::int64_t>() * ns_per_us);
        CHECK(report.bubble_fraction == expect["bubble_fraction"][key].get<double>());
        REQUIRE(report.warnings.size() == 1);
        CHECK(report.warnings[0].code == WarningCode::few_micro_batches);
        const Json& in_flight = expect["in_flight_per_stage"];
        const std::string own_key = key + " " + schedule_name.get<std::string>();
        const std::string used = in_flight.contains(own_key) ? own_key : key;
        if (!in_flight.contains(used)) continue;
        for (const RankId rank : ids<RankId>(8))
          CHECK(report.ranks[rank].peak_in_flight == in_flight[used][rank.index()]);
      }
  }

  TEST_CASE("case 26: the two bubbles of one pipeline, each by its name") {
    const Json document = read_case("26-two-bubble-definitions");
    const Json& expect = document["expect"];
    const Report report =
        report_of(make_schedule(ScheduleKind::one_f_one_b, 4, document["input"]["micro_batches"]),
                  cut(document["input"]["layers"], {1, 1, 1, 1}));
    CHECK(report.makespan.count() == expect["makespan_us"].get<std::int64_t>() * ns_per_us);
    CHECK(report.ranks[RankId{0}].busy.count() == expect["ideal_us"].get<std::int64_t>() * ns_per_us);
    CHECK(report.bubble_ratio == expect["idle_over_useful"].get<double>());
    CHECK(report.bubble_fraction == doctest::Approx(expect["idle_over_total"].get<double>()).epsilon(1e-5));
  }

  TEST_CASE("case 29: a diagram in which one op starts before its input has exactly one fault") {
    const Json document = read_case("29-illegal-schedule-dependency");
    Timeline timeline;
    Schedule schedule{ScheduleKind::one_f_one_b, false, 4, 1, PerId<RankId, std::vector<Op>>(4)};
    for (const Json& entry : document["input"]["timeline"]) {
      const std::int32_t stage = entry["stage"];
      const Op op{entry["op"] == "F" ? OpKind::forward : OpKind::backward, StageId{stage}, MicrobatchId{0}};
      timeline.spans.push_back({op, RankId{stage},
                                Nanoseconds{entry["start_us"].get<std::int64_t>() * ns_per_us},
                                Nanoseconds{entry["end_us"].get<std::int64_t>() * ns_per_us}});
      schedule.ranks[RankId{stage}].push_back(op);
    }
    const auto early = early_starts(timeline);
    const Json& violation = document["expect"]["violations"][0];
    REQUIRE(early.size() == document["expect"]["violations"].size());
    CHECK(early[0].span.op ==
          Op{OpKind::backward, StageId{violation["stage"]}, MicrobatchId{violation["micro_batch"]}});
    CHECK(early[0].span.start.count() == violation["starts_at"].get<std::int64_t>() * ns_per_us);
    CHECK(early_start_text(early[0]) ==
          "X0.0 on rank 0 starts at 300 us, but X1.0 on rank 1, which it needs, ends at 1 ms");
    // The order of each rank is a legal one: only the diagram's times are wrong.
    CHECK(check_schedule(schedule).has_value());
  }

  TEST_CASE("case 42: the makespans of all ten splits over a fast and a slow link") {
    const Json document = read_case("42-slow-inter-node-link");
    const Json& input = document["input"];
    const Schedule schedule = make_schedule(ScheduleKind::one_f_one_b, 3, input["micro_batches"]);
    REQUIRE(document["expect"]["ranking"].size() == 10);
    for (const Json& entry : document["expect"]["ranking"]) {
      CAPTURE(entry.dump());
      const PipelineCosts costs =
          cut(input["layers"], entry["sizes"].get<std::vector<std::size_t>>(), input["links"]);
      const Timeline timeline = simulate(schedule, costs).value();
      CHECK(timeline.makespan.count() == entry["makespan_us"].get<double>() * ns_per_us);
      for (const Transfer& transfer : timeline.transfers) {
        const std::size_t boundary = std::min(transfer.from, transfer.to).index();
        CHECK((transfer.end - transfer.start).count() ==
              entry["comm_us"][boundary].get<double>() * ns_per_us);
      }
    }
  }

  TEST_CASE("case 51: 64 stages of 64 layers with 512 micro-batches") {
    const Json document = read_case("51-huge-layer-count");
    const Json& layer = document["input"]["layers_repeat"]["template"];
    const std::int64_t forward = layer["forward_us"], backward = layer["backward_us"];
    const PipelineCosts costs =
        test::uniform_costs(64, test::stage_times(64 * forward * ns_per_us, 64 * backward * ns_per_us, 0));
    for (const ScheduleKind kind : {ScheduleKind::one_f_one_b, ScheduleKind::gpipe}) {
      const Timeline timeline =
          simulate(make_schedule(kind, 64, document["input"]["micro_batches"]), costs).value();
      CHECK(timeline.makespan.count() == document["expect"]["makespan_us"].get<std::int64_t>() * ns_per_us);
    }
  }
}
