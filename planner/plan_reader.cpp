// Reads the document pipeplan.plan/1 and refuses what contradicts itself or what this version cannot do.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "models/base/json_reader.hpp"
#include "planner/cost.hpp"
#include "planner/plan.hpp"
#include "planner/stage_reader.hpp"

namespace pipeplan {
namespace {

Objective read_objective(ObjectReader object) {
  Objective objective;
  objective.name = object.text("name");
  if (objective.name != "slowest-stage")
    object.fail("name", fmt::format("is '{}', wanted 'slowest-stage'", objective.name));
  objective.value = object.time("value_ns");
  objective.lower_bound = object.time("lower_bound_ns");
  objective.trivial_bound = object.time("trivial_bound_ns");
  if (objective.lower_bound > objective.value)
    object.fail("lower_bound_ns", fmt::format("is {}, more than value_ns, which is {}",
                                              objective.lower_bound.count(), objective.value.count()));
  const double gap = object.number("gap_fraction", 0, std::numeric_limits<double>::max());
  if (std::abs(gap - objective.gap_fraction()) > 1e-9 * std::max(1.0, gap))
    object.fail("gap_fraction",
                fmt::format("is {}, but value and lower bound give {}", gap, objective.gap_fraction()));
  const bool optimal = object.flag("optimal", objective.optimal());
  if (optimal != objective.optimal())
    object.fail("optimal", fmt::format("is {}, but the value is {} and its lower bound {}", optimal,
                                       objective.value.count(), objective.lower_bound.count()));
  object.done();
  return objective;
}

std::vector<Bytes> read_bytes(ObjectReader& object, const std::string& key, std::size_t count) {
  std::vector<Bytes> sizes;
  for (const std::int64_t bytes : object.integers(key)) sizes.push_back(Bytes{bytes});
  if (sizes.size() != count) object.fail(key, fmt::format("has {} entries, wanted {}", sizes.size(), count));
  return sizes;
}

Prediction read_prediction(ObjectReader object, std::size_t stages) {
  Prediction prediction;
  prediction.iteration = object.optional_time("iteration_ns");
  prediction.bubble_fraction = object.optional_number("bubble_fraction", 0, 1);
  prediction.peak_memory = read_bytes(object, "peak_memory_bytes", stages);
  prediction.transfer = read_bytes(object, "transfer_bytes", stages == 0 ? 0 : stages - 1);
  object.done();
  return prediction;
}

void read_settings(ObjectReader object, Plan& plan) {
  object.integer("seed");
  plan.state.optimizer = object.one_of<OptimizerRule>("optimizer");
  plan.algorithm = object.text("algorithm");
  plan.state.total_factor = object.optional_number("state_bytes_per_parameter_byte", 0, largest_state_factor);
  object.done();
}

void read_batch(ObjectReader& document, Plan& plan) {
  plan.micro_batch_size = document.integer("micro_batch_size", 1);
  plan.micro_batch_count = document.integer("micro_batch_count", 1);
  plan.data_parallel = document.integer("data_parallel", 1);
  const std::int64_t batch = document.integer("global_batch", 1);
  auto product = checked_product(plan.micro_batch_size, plan.micro_batch_count, largest_document_integer);
  if (product) product = checked_product(*product, plan.data_parallel, largest_document_integer);
  const std::string copies =
      plan.data_parallel == 1 ? "" : fmt::format(" times {} copies", plan.data_parallel);
  if (product != batch)
    document.fail("global_batch", fmt::format("is {}, but micro-batch size {} times count {}{} is {}", batch,
                                              plan.micro_batch_size, plan.micro_batch_count, copies,
                                              product ? fmt::format("{}", *product) : "out of range"));
}

}  // namespace

Result<Plan> plan_from_json(const Json& json, const std::string& source) {
  JsonSource errors(source);
  ObjectReader document(errors, json, "");
  Plan plan;
  document.expect_schema("pipeplan.plan/1");
  plan.model = document.text("model");
  plan.profile_digest = document.text("profile_digest");
  plan.cluster = read_cluster(document.object("cluster"));
  plan.schedule = document.one_of<ScheduleKind>("schedule");
  const std::int64_t virtual_stages = document.integer("virtual_stages", 1);
  plan.transfers = document.one_of<TransferMode>("transfers");
  plan.recompute_mode = document.one_of<RecomputeMode>("recompute_mode");
  read_batch(document, plan);
  if (!errors.failed()) read_stages(document, virtual_stages, plan);
  if (!errors.failed()) {
    plan.objective = read_objective(document.object("objective"));
    plan.prediction = read_prediction(document.object("prediction"), plan.stages.size());
    read_settings(document.object("settings"), plan);
    document.text("pipeplan_version");
    document.done();
  }
  return errors.result(std::move(plan));
}

Result<Plan> read_plan_file(const std::string& path) {
  PIPEPLAN_TRY(json, read_json_file(path));
  return plan_from_json(json, source_name(path));
}

}  // namespace pipeplan
