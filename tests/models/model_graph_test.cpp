#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "models/model_graph.hpp"
#include "tests/support/random.hpp"

namespace pipeplan::test {
namespace {

using Pairs = std::vector<std::pair<std::size_t, std::size_t>>;

PerId<LayerId, Layer> layers_named(const std::vector<std::string>& names) {
  PerId<LayerId, Layer> layers;
  for (const std::string& name : names) layers.push_back({.name = name, .kind = "linear"});
  return layers;
}

Edge edge(std::int32_t from, std::int32_t to) { return {LayerId{from}, LayerId{to}}; }

Result<ModelGraph> graph_of(const std::vector<std::string>& names, std::vector<Edge> edges) {
  return ModelGraph::make("net", layers_named(names), std::move(edges), "net.json");
}

std::vector<std::string> numbered(std::size_t count) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i) names.push_back(fmt::format("n{}", i));
  return names;
}

bool is_order_of(const std::vector<std::size_t>& order, const Pairs& edges) {
  const auto place = [&](std::size_t node) { return std::find(order.begin(), order.end(), node); };
  return std::all_of(edges.begin(), edges.end(),
                     [&](const auto& pair) { return place(pair.first) < place(pair.second); });
}

// The oracle: the smallest unplaced node whose sources are all placed, again and again, in plain loops.
std::vector<std::size_t> order_by_scanning(std::size_t count, const Pairs& edges) {
  std::vector<std::size_t> order;
  const auto placed = [&](std::size_t node) {
    return std::find(order.begin(), order.end(), node) != order.end();
  };
  for (std::size_t node = 0; node < count; ++node) {
    const bool ready = !placed(node) && std::all_of(edges.begin(), edges.end(), [&](const auto& pair) {
      return pair.second != node || placed(pair.first);
    });
    if (!ready) continue;
    order.push_back(node);
    node = static_cast<std::size_t>(-1);
  }
  return order;
}

}  // namespace

TEST_CASE("topological_order: among ready nodes the smallest number comes first") {
  CHECK(*topological_order(numbered(4), {}, "g") == std::vector<std::size_t>{0, 1, 2, 3});
  CHECK(*topological_order(numbered(4), {{3, 0}, {3, 1}}, "g") == std::vector<std::size_t>{2, 3, 0, 1});
  CHECK(*topological_order(numbered(4), {{2, 1}, {1, 0}, {2, 0}, {0, 3}}, "g") ==
        std::vector<std::size_t>{2, 1, 0, 3});
  CHECK(topological_order({}, {}, "g")->empty());
}

TEST_CASE("topological_order: the same edge twice changes nothing") {
  CHECK(*topological_order(numbered(3), {{2, 0}, {2, 0}, {0, 1}}, "g") == std::vector<std::size_t>{2, 0, 1});
}

TEST_CASE("topological_order: agrees with plain loops on random graphs") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    INFO("seed ", seed);
    Random random(seed);
    const auto count = static_cast<std::size_t>(random.between(1, 12));
    // Edges run from lower to higher places of a hidden order, so that there is no cycle.
    std::vector<std::size_t> hidden(count);
    std::iota(hidden.begin(), hidden.end(), std::size_t{0});
    for (std::size_t i = count; i-- > 1;)
      std::swap(hidden[i], hidden[static_cast<std::size_t>(random.between(0, static_cast<std::int64_t>(i)))]);
    Pairs edges;
    for (std::size_t i = 0; i < count; ++i)
      for (std::size_t j = i + 1; j < count; ++j)
        if (random.between(0, 3) == 0) edges.emplace_back(hidden[i], hidden[j]);
    const auto order = topological_order(numbered(count), edges, "g");
    REQUIRE(order);
    CHECK(is_order_of(*order, edges));
    CHECK(*order == order_by_scanning(count, edges));
  }
}

TEST_CASE("topological_order: a cycle is named in its order, a shortest one through its smallest node") {
  struct Case {
    Pairs edges;
    std::string message;
  };
  for (const Case& bad : std::vector<Case>{{{{1, 2}, {2, 1}}, "cycle n1 -> n2 -> n1"},
                                           {{{3, 3}}, "cycle n3 -> n3"},
                                           {{{0, 1}, {1, 2}, {2, 0}}, "cycle n0 -> n1 -> n2 -> n0"},
                                           {{{2, 1}, {1, 0}, {0, 2}}, "cycle n0 -> n2 -> n1 -> n0"},
                                           {{{0, 1}, {1, 2}, {2, 3}, {3, 0}, {1, 0}}, "cycle n0 -> n1 -> n0"},
                                           {{{0, 2}, {2, 3}, {3, 2}, {3, 4}}, "cycle n2 -> n3 -> n2"},
                                           {{{0, 1}, {1, 4}, {2, 3}, {3, 2}, {3, 0}}, "cycle n2 -> n3 -> n2"},
                                           {{{1, 2}, {1, 2}, {2, 1}}, "cycle n1 -> n2 -> n1"}}) {
    INFO(bad.message);
    const auto order = topological_order(numbered(5), bad.edges, "graph.txt");
    REQUIRE(!order);
    CHECK(order.error().message == bad.message);
    CHECK(order.error().where == "graph.txt");
  }
}

TEST_CASE("topological_order: the middle of a very long cycle is counted, not listed") {
  Pairs ring;
  for (std::size_t i = 0; i < 100; ++i) ring.emplace_back(i, (i + 1) % 100);
  const auto order = topological_order(numbered(100), ring, "g");
  REQUIRE(!order);
  CHECK(order.error().message ==
        "cycle n0 -> n1 -> n2 -> n3 -> n4 -> n5 -> n6 -> n7 -> (85 more) -> n93 -> n94 -> n95 -> n96 -> n97 "
        "-> n98 -> "
        "n99 -> n0");
}

TEST_CASE("model graph: without edges the layers are a chain") {
  const auto graph = graph_of({"a", "b", "c"}, {});
  REQUIRE(graph);
  CHECK(graph->edges() == std::vector<Edge>{edge(0, 1), edge(1, 2)});
  CHECK(graph->has_single_order());
  CHECK(graph->name() == "net");
  CHECK(!graph->spec());
  CHECK(graph_of({"a"}, {})->edges().empty());
  CHECK(graph_of({"a"}, {})->has_single_order());
}

TEST_CASE("model graph: edges are sorted by from and to, and keep their bytes") {
  Edge sized = edge(0, 2);
  sized.bytes = Bytes{12};
  const auto graph = graph_of({"a", "b", "c"}, {edge(1, 2), sized, edge(0, 1)});
  REQUIRE(graph);
  CHECK(graph->edges() == std::vector<Edge>{edge(0, 1), sized, edge(1, 2)});
}

TEST_CASE("model graph: the order is single exactly if each layer feeds the next") {
  CHECK(graph_of({"a", "b", "c"}, {edge(0, 1), edge(1, 2), edge(0, 2)})->has_single_order());
  CHECK(!graph_of({"a", "b", "c"}, {edge(0, 1), edge(0, 2)})->has_single_order());
  CHECK(
      !graph_of({"a", "b", "c", "d"}, {edge(0, 1), edge(0, 2), edge(1, 3), edge(2, 3)})->has_single_order());
}

TEST_CASE("model graph: faults are refused by place, with what was seen") {
  struct Case {
    std::vector<std::string> names;
    std::vector<Edge> edges;
    std::string where, message;
  };
  for (const Case& bad : std::vector<Case>{
           {{}, {}, "net.json#/layers", "there are no layers, wanted at least one"},
           {{"a", "", "c"}, {}, "net.json#/layers/1/name", "name of layer 1 is empty, wanted a name"},
           {{"a", "b", "a"},
            {},
            "net.json#/layers/2/name",
            "layers 0 and 2 are both named 'a', wanted unique names"},
           {{"a", "b"},
            {edge(0, 1), edge(0, 2)},
            "net.json#/edges/1/to",
            "edge names layer 2, wanted 0 to 1"},
           {{"a", "b"}, {edge(-1, 1)}, "net.json#/edges/0/from", "edge names layer -1, wanted 0 to 1"},
           {{"a", "b", "c"},
            {edge(0, 1), edge(1, 2), edge(0, 1)},
            "net.json#/edges/2",
            "edges 0 and 2 both lead from 'a' to 'b', wanted one"},
           {{"a", "b", "c"}, {edge(0, 1), edge(1, 2), edge(2, 1)}, "net.json#/edges", "cycle b -> c -> b"},
           {{"a", "b"}, {edge(0, 1), edge(1, 1)}, "net.json#/edges", "cycle b -> b"},
           {{"a", "b", "c"},
            {edge(0, 2), edge(2, 1)},
            "net.json#/edges/1",
            "edge from 'c' to 'b' leads backward, wanted each layer after those that feed it"}}) {
    INFO(bad.message);
    const auto graph = graph_of(bad.names, bad.edges);
    REQUIRE(!graph);
    CHECK(graph.error().where == bad.where);
    CHECK(graph.error().message == bad.message);
    CHECK(graph.error().code == ErrorCode::bad_input);
  }
  CHECK(graph_of({"a", "b", "c"}, {edge(0, 2), edge(2, 1)}).error().hint == "put layer 'b' after layer 'c'");
}

TEST_CASE("model graph: runnable only if every layer is, in a plain chain") {
  const LayerSpec relu{.kind = LayerKind::relu, .inputs = 2, .outputs = 2};
  PerId<LayerId, Layer> layers;
  for (const char* name : {"a", "b", "c"}) layers.push_back({.name = name, .kind = "relu", .runnable = relu});
  CHECK(ModelGraph::make("net", layers, {}, "g")->runnable());
  CHECK(!ModelGraph::make("net", layers, {edge(0, 1), edge(1, 2), edge(0, 2)}, "g")->runnable());
  layers[LayerId{1}].runnable.reset();
  CHECK(!ModelGraph::make("net", layers, {}, "g")->runnable());
}

}  // namespace pipeplan::test
