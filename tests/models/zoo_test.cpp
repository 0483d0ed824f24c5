#include <doctest/doctest.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "models/layers/layer.hpp"
#include "models/zoo/zoo.hpp"

namespace pipeplan::test {
namespace {

ModelGraph built(const ModelSpec& spec) {
  auto graph = build_model(spec);
  REQUIRE_MESSAGE(graph, graph.error().message);
  return std::move(*graph);
}

std::vector<std::string> names_of(const ModelGraph& graph) {
  std::vector<std::string> names;
  for (const Layer& layer : graph.layers()) names.push_back(layer.name + " " + layer.kind);
  return names;
}

std::int64_t parameters_of(const ModelGraph& graph) {
  std::int64_t sum = 0;
  for (const Layer& layer : graph.layers()) sum += layer.parameter_count;
  return sum;
}

Result<ModelSpec> read(const std::string& text) {
  JsonSource source("profile.json");
  const Json json = Json::parse(text);
  const ModelSpec spec = read_model_spec({source, json, "/model_spec"});
  return source.result(spec);
}

}  // namespace

TEST_CASE("zoo: the layers of an mlp, in order") {
  CHECK(names_of(built(MlpSpec{.layers = 2})) ==
        std::vector<std::string>{"hidden.0 linear", "relu.0 relu", "hidden.1 linear", "relu.1 relu",
                                 "head linear", "loss mean_squared_error"});
}

TEST_CASE("zoo: the layers of a transformer, in order") {
  CHECK(names_of(built(TransformerSpec{.blocks = 2})) ==
        std::vector<std::string>{"embedding embedding", "block.0.attention attention", "block.0.mlp mlp",
                                 "block.1.attention attention", "block.1.mlp mlp", "norm layer_norm",
                                 "head linear", "loss cross_entropy"});
}

TEST_CASE("zoo: an mlp has (i w + w) + (l-1)(w w + w) + (w o + o) parameters") {
  CHECK(parameters_of(built(MlpSpec{.inputs = 3, .width = 5, .layers = 4, .outputs = 2})) ==
        (3 * 5 + 5) + 3 * (5 * 5 + 5) + (5 * 2 + 2));
}

TEST_CASE("zoo: a transformer has 12 h h + 13 h parameters per block, and embedding, norm and head") {
  // Per block: four h by h for attention and eight for the mlp; biases 3h + h + 4h + h; two norms of 2h.
  const std::int64_t h = 8, b = 3, s = 5, v = 11;
  CHECK(parameters_of(
            built(TransformerSpec{.blocks = b, .hidden = h, .heads = 2, .sequence = s, .vocabulary = v})) ==
        b * (12 * h * h + (3 + 1 + 4 + 1 + 4) * h) + (v + s) * h + 2 * h + h * v + v);
}

TEST_CASE("zoo: GPT-2 small has the 124 million parameters of its published code, beside an untied head") {
  // 124 439 808 in openai/gpt-2 (117M by the paper's count), where the head shares the token vectors and has
  // no bias.
  const auto graph =
      built(TransformerSpec{.blocks = 12, .hidden = 768, .heads = 12, .sequence = 1024, .vocabulary = 50257});
  CHECK(parameters_of(graph) == 124'439'808 + (768 * 50257 + 50257));
}

TEST_CASE("zoo: closed forms agree with the layers themselves") {
  for (const ModelSpec& spec : std::vector<ModelSpec>{MlpSpec{}, TransformerSpec{}}) {
    const ModelGraph graph = built(spec);
    for (const Layer& layer : graph.layers()) {
      INFO(layer.name);
      const auto made = make_layer<float>(*layer.runnable, layer.name);
      REQUIRE(made);
      CHECK((*made)->parameter_count() == layer.parameter_count);
    }
  }
}

TEST_CASE("zoo: networks are runnable chains whose layers meet, ended by a loss") {
  for (const ModelSpec& spec : std::vector<ModelSpec>{MlpSpec{}, TransformerSpec{}}) {
    const ModelGraph graph = built(spec);
    CHECK(graph.runnable());
    CHECK(graph.has_single_order());
    CHECK(graph.spec() == spec);
    for (const Edge& edge : graph.edges()) {
      INFO(graph.layers()[edge.from].name);
      const LayerSpec &before = *graph.layers()[edge.from].runnable,
                      &after = *graph.layers()[edge.to].runnable;
      CHECK(before.outputs == after.inputs);
      CHECK(before.rows_per_sample == after.rows_per_sample);
    }
    for (const LayerId id : ids<LayerId>(graph.layers().size()))
      CHECK(is_loss(*graph.layers()[id].runnable) == (id.next() == graph.layers().end_id()));
  }
}

TEST_CASE("zoo: sizes that make no sense are refused by name") {
  struct Case {
    ModelSpec spec;
    std::string where, message;
  };
  const std::int64_t w = 1 << 20;  // the largest size
  const auto too_many = [](std::int64_t count) {
    return "the network has " + fmt::to_string(count) + " parameters, wanted at most 1099511627776";
  };
  for (const Case& bad : std::vector<Case>{
           {MlpSpec{.inputs = 0}, "mlp", "inputs is 0, wanted 1 to 1048576"},
           {MlpSpec{.layers = 65537}, "mlp", "layers is 65537, wanted 1 to 65536"},
           {MlpSpec{.seed = -1}, "mlp", "seed is -1, wanted 0 to 9007199254740991"},
           {MlpSpec{.inputs = 64, .width = w, .layers = 3, .outputs = 16}, "mlp",
            too_many((64 * w + w) + 2 * (w * w + w) + (w * 16 + 16))},
           {TransformerSpec{.hidden = 1 << 21}, "transformer", "hidden is 2097152, wanted 1 to 1048576"},
           {TransformerSpec{.hidden = 10, .heads = 3}, "transformer",
            "heads is 3, wanted a divisor of hidden, which is 10"},
           {TransformerSpec{.blocks = 65536, .hidden = w, .sequence = w, .vocabulary = w}, "transformer",
            too_many(65536 * (12 * w * w + 13 * w) + (w + w) * w + 2 * w + (w * w + w))},
           {TransformerSpec{.hidden = 4, .heads = 4, .sequence = 1 << 20}, "block.0.attention/inner/2",
            "attention layer: score matrix is 1099511627776 by 4, wanted at most 1099511627776 "
            "scalars"}}) {
    INFO(bad.message);
    const auto graph = build_model(bad.spec);
    REQUIRE(!graph);
    CHECK(graph.error().where == bad.where);
    CHECK(graph.error().message == bad.message);
  }
}

TEST_CASE("model spec: the document form, keys in order") {
  CHECK(
      to_json(ModelSpec{TransformerSpec{}}).dump() ==
      R"({"name":"transformer","blocks":8,"hidden":256,"heads":4,"sequence":128,"vocabulary":1000,"seed":0})");
  CHECK(to_json(ModelSpec{MlpSpec{}}).dump() ==
        R"({"name":"mlp","inputs":64,"width":512,"layers":8,"outputs":16,"seed":0})");
}

TEST_CASE("model spec: writing then reading gives an equal value") {
  for (const ModelSpec& spec : std::vector<ModelSpec>{
           MlpSpec{.inputs = 1, .width = 2, .layers = 3, .outputs = 4, .seed = (std::int64_t{1} << 53) - 1},
           TransformerSpec{
               .blocks = 1, .hidden = 6, .heads = 3, .sequence = 4, .vocabulary = 5, .seed = 7}}) {
    const auto again = read(to_json(spec).dump());
    REQUIRE(again);
    CHECK(*again == spec);
  }
}

TEST_CASE(
    "model spec: unknown names, unknown keys, missing keys and values out of range are refused by place") {
  struct Case {
    std::string text, where, message, hint;
  };
  for (const Case& bad : std::vector<Case>{
           {R"({"name": "transfomer"})", "profile.json#/model_spec/name",
            "is 'transfomer', wanted one of mlp, transformer", "did you mean 'transformer'?"},
           {R"({"name": "resnet"})", "profile.json#/model_spec/name",
            "is 'resnet', wanted one of mlp, transformer", ""},
           {R"({"name": "mlp", "inputs": 1, "width": 1, "outputs": 1, "seed": 0})",
            "profile.json#/model_spec/layers", "is missing", ""},
           {R"({"name": "mlp", "inputs": 1, "width": 0, "layers": 1, "outputs": 1, "seed": 0})",
            "profile.json#/model_spec/width", "is 0, wanted at least 1", ""},
           {R"({"name": "mlp", "inputs": 1, "width": 1, "layers": 1, "outputs": 1, "seed": 0, "hidden": 3})",
            "profile.json#/model_spec/hidden", "unknown key 'hidden'", ""}}) {
    INFO(bad.text);
    const auto spec = read(bad.text);
    REQUIRE(!spec);
    CHECK(spec.error().where == bad.where);
    CHECK(spec.error().message == bad.message);
    CHECK(spec.error().hint == bad.hint);
  }
}

}  // namespace pipeplan::test
