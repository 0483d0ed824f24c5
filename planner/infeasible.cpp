#include "planner/infeasible.hpp"

#include <nlohmann/json.hpp>

#include "models/base/assert.hpp"
#include "planner/memory.hpp"

namespace pipeplan {
namespace {

__extension__ using Wide = __int128;

// Whether `a` fills more of its limit than `b` of its own.
bool tighter(const Infeasible& a, const Infeasible& b) {
  return static_cast<Wide>(a.needed.total().value) * b.limit.value >
         static_cast<Wide>(b.needed.total().value) * a.limit.value;
}

}  // namespace

Infeasible explain_infeasible(const SplitProblem& problem, const std::vector<std::int64_t>& bounds,
                              Bytes smallest_memory) {
  std::optional<Infeasible> tightest;
  for (std::int64_t stage = 0; stage < problem.stages; ++stage) {
    const StageMemory memory = split_memory(problem, bounds, stage);
    if (!memory.limit) continue;
    const auto at = static_cast<std::size_t>(stage);
    Infeasible own{id_of<StageId>(at),
                   id_of<LayerId>(static_cast<std::size_t>(bounds[at])),
                   id_of<LayerId>(static_cast<std::size_t>(bounds[at + 1] - 1)),
                   memory.constant,
                   *memory.limit,
                   smallest_memory,
                   problem.stages};
    own.needed[MemoryItem::activations] +=
        memory.activation_per_micro_batch *
        in_flight(problem.schedule, problem.stages, problem.micro_batch_count, stage);
    if (!tightest || tighter(own, *tightest)) tightest = own;
  }
  PIPEPLAN_ASSERT(tightest);  // without limits every split fits
  return *tightest;
}

Json infeasible_json(const Infeasible& infeasible, const Profile& profile) {
  Json needed = Json::object();
  for (const auto& item : spellings(MemoryItem{}))
    needed[std::string(item.text)] = infeasible.needed[item.value].value;
  Json layers = Json::array();
  for (LayerId layer = infeasible.first; layer <= infeasible.last; layer = layer.next())
    layers.push_back(profile.layers[layer].name);
  return Json{{"schema", "pipeplan.infeasible/1"},
              {"model", profile.model},
              {"stage_count", infeasible.stage_count},
              {"tightest_stage",
               {{"index", infeasible.tightest_stage.value},
                {"layers", std::move(layers)},
                {"first_layer", infeasible.first.value},
                {"last_layer", infeasible.last.value},
                {"needed_bytes", infeasible.needed.total().value},
                {"needed_items_bytes", std::move(needed)},
                {"limit_bytes", infeasible.limit.value}}},
              {"smallest_memory_bytes", infeasible.smallest_memory.value}};
}

}  // namespace pipeplan
