#include "planner/stage_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

namespace pipeplan {
namespace {

std::int32_t small_integer(ObjectReader& object, const std::string& key) {
  return static_cast<std::int32_t>(object.integer(key, 0, std::numeric_limits<std::int32_t>::max()));
}

// Reads one stage after the other and knows what those before have taken.
class StageReader {
 public:
  explicit StageReader(Plan& plan) : plan_(plan) {}

  void read(ObjectReader& object) {
    StagePlan stage;
    expect_index(object);
    stage.rank.value = small_integer(object, "rank");
    read_layers(object, stage);
    read_replicas(object, stage);
    read_devices(object, stage);
    expect_one(object, "tensor_parallel");
    read_recompute(object, stage);
    object.done();
    plan_.stages.push_back(std::move(stage));
  }

 private:
  [[nodiscard]] std::int64_t index() const { return plan_.stage_count(); }

  void expect_index(ObjectReader& object) const {
    const std::int64_t seen = object.integer("index");
    if (seen != index()) object.fail("index", fmt::format("is {}, wanted {}", seen, index()));
  }

  void read_layers(ObjectReader& object, StagePlan& stage) {
    const auto next = static_cast<std::int64_t>(plan_.layer_names.size());
    const std::vector<std::string> names = object.texts("layers");
    take_names(object, names);
    stage.first.value = small_integer(object, "first_layer");
    stage.last.value = small_integer(object, "last_layer");
    check_range(object, stage, next, static_cast<std::int64_t>(names.size()));
  }

  void take_names(ObjectReader& object, const std::vector<std::string>& names) {
    if (names.empty()) object.fail("layers", fmt::format("is empty: stage {} has no layer", index()));
    for (const std::string& name : names) {
      if (name.empty()) object.fail("layers", "has an empty name, wanted at least one character");
      const auto [place, is_new] = layers_.emplace(name, LayerPlace{index(), plan_.layer_names.end_id()});
      if (!is_new)
        object.fail("layers", fmt::format("layer '{}' is in stage {} and again in stage {}", name,
                                          place->second.stage, index()));
      plan_.layer_names.push_back(name);
    }
  }

  // `next` is the first layer that no earlier stage has.
  static void check_range(ObjectReader& object, const StagePlan& stage, std::int64_t next,
                          std::int64_t layers) {
    const std::int64_t first = stage.first.value;
    if (first > next)
      object.fail("first_layer",
                  fmt::format("is {}: layers {} to {} are in no stage", first, next, first - 1));
    if (first < next)
      object.fail("first_layer",
                  fmt::format("is {}, but layers up to {} are in earlier stages", first, next - 1));
    if (stage.last.value - first + 1 != layers)
      object.fail("last_layer", fmt::format("is {}, wanted {}: the stage lists {} layers from layer {} on",
                                            stage.last.value, first + layers - 1, layers, first));
  }

  void read_replicas(ObjectReader& object, StagePlan& stage) const {
    stage.replicas = object.integer("replicas", 1);
    if (plan_.micro_batch_size % stage.replicas != 0)
      object.fail("replicas", fmt::format("is {}, wanted a divisor of micro_batch_size, which is {}",
                                          stage.replicas, plan_.micro_batch_size));
  }

  void read_devices(ObjectReader& object, StagePlan& stage) {
    const std::vector<std::int64_t> devices = object.integers("devices");
    if (devices.empty()) object.fail("devices", "is empty, wanted at least one device");
    const auto count = static_cast<std::int64_t>(devices.size());
    if (checked_product(stage.replicas, plan_.data_parallel, count) != count)
      object.fail("devices", fmt::format("has {} devices, wanted {} replicas times {} copies", count,
                                         stage.replicas, plan_.data_parallel));
    if (std::ranges::any_of(devices, [&](std::int64_t device) { return device >= device_count(); }))
      return object.fail("devices", fmt::format("device {} is not in the cluster, which has {}",
                                                *std::ranges::max_element(devices), device_count()));
    stage.devices.clear();
    for (const std::int64_t device : devices)
      stage.devices.push_back(DeviceId{static_cast<std::int32_t>(device)});
    const auto same_rank = std::ranges::find(plan_.stages, stage.rank, &StagePlan::rank);
    if (same_rank == plan_.stages.end()) return take_devices(object, stage);
    if (same_rank->devices != stage.devices || same_rank->replicas != stage.replicas)
      object.fail("devices", fmt::format("are not those of stage {}, which is on rank {} too",
                                         same_rank - plan_.stages.begin(), stage.rank.value));
  }

  void take_devices(ObjectReader& object, const StagePlan& stage) {
    for (const DeviceId device : stage.devices) {
      const auto [place, is_new] = devices_.emplace(device, index());
      if (!is_new)
        object.fail("devices", fmt::format("device {} runs stage {} and again stage {}", device.value,
                                           place->second, index()));
    }
  }

  [[nodiscard]] std::int64_t device_count() const { return plan_.cluster.device_count(); }

  void read_recompute(ObjectReader& object, StagePlan& stage) const {
    for (const std::string& name : object.texts("recompute")) {
      if (name.empty()) object.fail("recompute", "has an empty name, wanted at least one character");
      const auto place = layers_.find(name);
      if (place == layers_.end() || place->second.stage != index())
        return object.fail("recompute", fmt::format("lists '{}', which is not in stage {}", name, index()));
      const LayerId layer = place->second.layer;
      if (!stage.recompute.empty() && layer <= stage.recompute.back())
        return object.fail("recompute", fmt::format("lists '{}' after '{}', wanted each layer once, in order",
                                                    name, plan_.layer_names[stage.recompute.back()]));
      stage.recompute.push_back(layer);
    }
  }

  Plan& plan_;
  struct LayerPlace {
    std::int64_t stage;
    LayerId layer;
  };
  std::map<std::string, LayerPlace> layers_;
  std::map<DeviceId, std::int64_t> devices_;  // which stage has it
};

// Equally many stages on each of the ranks 0, 1, …
void check_ranks(ObjectReader& document, std::vector<ObjectReader>& objects, std::int64_t virtual_stages,
                 const Plan& plan) {
  if (plan.stage_count() % virtual_stages != 0)
    return document.fail("virtual_stages",
                         fmt::format("is {}, but {} stages cannot be shared out {} to a rank", virtual_stages,
                                     plan.stage_count(), virtual_stages));
  const std::int64_t ranks = plan.stage_count() / virtual_stages;
  PerId<RankId, std::int64_t> held(static_cast<std::size_t>(ranks));
  for (const StageId stage : ids<StageId>(plan.stages.size())) {
    const RankId rank = plan.stages[stage].rank;
    ObjectReader& object = objects[stage.index()];
    if (rank >= held.end_id())
      return object.fail("rank", fmt::format("is {}, but {} stages, {} to a rank, are on ranks 0 to {}",
                                             rank.value, plan.stage_count(), virtual_stages, ranks - 1));
    if (++held[rank] > virtual_stages)
      return object.fail("rank", fmt::format("is {}, but rank {} has its {} already, by virtual_stages",
                                             rank.value, rank.value, virtual_stages));
  }
}

}  // namespace

void expect_one(ObjectReader& object, const std::string& key) {
  const std::int64_t value = object.integer(key, 1);
  if (value != 1) object.fail(key, fmt::format("is {}, but this version of pipeplan only does 1", value));
}

void read_stages(ObjectReader& document, std::int64_t virtual_stages, Plan& plan) {
  std::vector<ObjectReader> objects = document.objects("stages");
  StageReader reader(plan);
  for (ObjectReader& object : objects) reader.read(object);
  if (plan.stages.empty()) return document.fail("stages", "is empty, wanted at least one stage");
  check_ranks(document, objects, virtual_stages, plan);
}

}  // namespace pipeplan
