#include "models/zoo/zoo.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "models/base/spelling.hpp"
#include "models/layers/layer.hpp"
#include "models/zoo/mlp.hpp"
#include "models/zoo/spec_field.hpp"
#include "models/zoo/transformer.hpp"

namespace pipeplan {
namespace {

std::string name_of(const MlpSpec&) { return "mlp"; }
std::string name_of(const TransformerSpec&) { return "transformer"; }

Result<ModelGraph> build(const MlpSpec& spec) { return build_mlp(spec); }
Result<ModelGraph> build(const TransformerSpec& spec) { return build_transformer(spec); }

template<class Spec>
Result<void> check_sizes(const Spec& spec) {
  for (const auto& field : spec_fields(spec)) {
    const std::int64_t value = spec.*field.value;
    if (value < field.least || value > field.most)
      return bad_input(name_of(spec),
                       fmt::format("{} is {}, wanted {} to {}", field.key, value, field.least, field.most));
  }
  if (const std::int64_t total = parameter_total(spec); total > largest_parameter_count)
    return bad_input(name_of(spec), fmt::format("the network has {} parameters, wanted at most {}", total,
                                                largest_parameter_count));
  return {};
}

// What the sizes mean together (a long sequence times a wide layer) is for each layer to judge.
Result<void> check_layers(const ModelGraph& graph) {
  for (const Layer& layer : graph.layers()) PIPEPLAN_CHECK(make_layer<float>(*layer.runnable, layer.name));
  return {};
}

template<class Spec>
Spec read_fields(ObjectReader& object) {
  Spec spec;
  for (const auto& field : spec_fields(spec))
    spec.*field.value = object.integer(field.key, field.least, field.most);
  object.done();
  return spec;
}

void refuse_name(const std::string& name, ObjectReader& object) {
  const std::vector<std::string> known = {name_of(MlpSpec{}), name_of(TransformerSpec{})};
  const auto nearest = nearest_spelling(name, known);
  object.fail("name", fmt::format("is '{}', wanted one of {}", name, fmt::join(known, ", ")),
              nearest ? fmt::format("did you mean '{}'?", *nearest) : "");
}

}  // namespace

Result<ModelGraph> build_model(const ModelSpec& spec) {
  PIPEPLAN_CHECK(std::visit([](const auto& it) { return check_sizes(it); }, spec));
  PIPEPLAN_TRY(graph, std::visit([](const auto& it) { return build(it); }, spec));
  PIPEPLAN_CHECK(check_layers(graph));
  graph.set_spec(spec);
  return std::move(graph);
}

std::string model_name(const ModelSpec& spec) {
  return std::visit([](const auto& it) { return name_of(it); }, spec);
}

Json to_json(const ModelSpec& spec) {
  Json json = {{"name", model_name(spec)}};
  std::visit(
      [&](const auto& it) {
        for (const auto& field : spec_fields(it)) json[field.key] = it.*field.value;
      },
      spec);
  return json;
}

ModelSpec read_model_spec(ObjectReader object) {
  const std::string name = object.text("name");
  if (name == name_of(TransformerSpec{})) return read_fields<TransformerSpec>(object);
  if (name == name_of(MlpSpec{})) return read_fields<MlpSpec>(object);
  refuse_name(name, object);
  return MlpSpec{};
}

}  // namespace pipeplan
