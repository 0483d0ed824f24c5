#include "models/model_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/breadth_first_search.hpp>
#include <boost/graph/strong_components.hpp>
#include <functional>
#include <map>
#include <queue>

namespace pipeplan {
namespace {

using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS>;
using Pairs = std::vector<std::pair<std::size_t, std::size_t>>;

// Kahn 1962. Nodes on a cycle or behind one are left out.
std::vector<std::size_t> order_as_far_as_possible(const Graph& graph) {
  std::vector<std::size_t> waiting(num_vertices(graph), 0);
  for (const auto edge : make_iterator_range(edges(graph))) ++waiting[target(edge, graph)];
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
  for (std::size_t node = 0; node < waiting.size(); ++node)
    if (waiting[node] == 0) ready.push(node);
  std::vector<std::size_t> order;
  while (!ready.empty()) {
    const std::size_t node = ready.top();
    ready.pop();
    order.push_back(node);
    for (const std::size_t next : make_iterator_range(adjacent_vertices(node, graph)))
      if (--waiting[next] == 0) ready.push(next);
  }
  return order;
}

// The smallest node that lies on a cycle; there must be one. A node does if it feeds a node of its own strong
// component.
std::size_t smallest_on_cycle(const Graph& graph) {
  std::vector<std::size_t> component(num_vertices(graph));
  boost::strong_components(graph, component.data());
  std::size_t smallest = num_vertices(graph);
  for (const auto edge : make_iterator_range(edges(graph)))
    if (component[source(edge, graph)] == component[target(edge, graph)])
      smallest = std::min(smallest, source(edge, graph));
  return smallest;
}

// A shortest way from `start` back to itself, both ends included.
std::vector<std::size_t> shortest_cycle_through(std::size_t start, const Graph& graph) {
  std::vector<std::size_t> parent(num_vertices(graph), start);
  std::vector<std::size_t> distance(num_vertices(graph), 0);
  auto record =
      boost::make_bfs_visitor(std::pair(boost::record_predecessors(parent.data(), boost::on_tree_edge()),
                                        boost::record_distances(distance.data(), boost::on_tree_edge())));
  boost::breadth_first_search(graph, start, boost::visitor(record));

  std::size_t last = num_vertices(graph);
  for (const auto edge : make_iterator_range(edges(graph))) {
    const std::size_t node = source(edge, graph);
    const bool reached = node == start || distance[node] > 0;
    if (target(edge, graph) != start || !reached) continue;
    if (last == num_vertices(graph) || std::pair(distance[node], node) < std::pair(distance[last], last))
      last = node;
  }
  std::vector<std::size_t> cycle = {start};
  for (std::size_t node = last; node != start; node = parent[node]) cycle.push_back(node);
  cycle.push_back(start);
  std::reverse(cycle.begin(), cycle.end());
  return cycle;
}

// "cycle n1 -> n2 -> n1"; the middle of a long one is counted only.
std::string cycle_text(const std::vector<std::size_t>& cycle, const std::vector<std::string>& names) {
  constexpr std::size_t shown_at_each_end = 8;
  std::string text = "cycle " + names[cycle.front()];
  for (std::size_t i = 1; i < cycle.size(); ++i) {
    const bool hidden = i >= shown_at_each_end && i + shown_at_each_end < cycle.size();
    if (!hidden)
      text += " -> " + names[cycle[i]];
    else if (i == shown_at_each_end)
      text += fmt::format(" -> ({} more)", cycle.size() - 2 * shown_at_each_end);
  }
  return text;
}

std::vector<std::string> names_of(const PerId<LayerId, Layer>& layers) {
  std::vector<std::string> names;
  names.reserve(layers.size());
  for (const Layer& layer : layers) names.push_back(layer.name);
  return names;
}

Result<void> check_names(const PerId<LayerId, Layer>& layers, const std::string& where) {
  if (layers.empty()) return bad_input(where + "#/layers", "there are no layers, wanted at least one");
  std::map<std::string, std::size_t> seen;
  for (const LayerId id : ids<LayerId>(layers.size())) {
    const std::string& name = layers[id].name;
    const std::string place = fmt::format("{}#/layers/{}/name", where, id.value);
    if (name.empty())
      return bad_input(place, fmt::format("name of layer {} is empty, wanted a name", id.value));
    const auto [first, fresh] = seen.emplace(name, id.index());
    if (!fresh)
      return bad_input(place, fmt::format("layers {} and {} are both named '{}', wanted unique names",
                                          first->second, id.value, name));
  }
  return {};
}

Result<void> check_ends(const Edge& edge, std::size_t layer_count, const std::string& place) {
  const auto known = [&](LayerId id) { return id.value >= 0 && id.index() < layer_count; };
  const auto refuse = [&](const char* end, LayerId id) {
    return bad_input(fmt::format("{}/{}", place, end),
                     fmt::format("edge names layer {}, wanted 0 to {}", id.value, layer_count - 1));
  };
  if (!known(edge.from)) return refuse("from", edge.from);
  if (!known(edge.to)) return refuse("to", edge.to);
  return {};
}

std::string edge_place(const std::string& where, std::size_t index) {
  return fmt::format("{}#/edges/{}", where, index);
}

Result<void> check_edges(const std::vector<Edge>& edges, const std::vector<std::string>& names,
                         const std::string& where) {
  std::map<std::pair<LayerId, LayerId>, std::size_t> seen;
  for (std::size_t i = 0; i < edges.size(); ++i) {
    const Edge& edge = edges[i];
    PIPEPLAN_CHECK(check_ends(edge, names.size(), edge_place(where, i)));
    const auto [first, fresh] = seen.emplace(std::pair(edge.from, edge.to), i);
    if (!fresh)
      return bad_input(edge_place(where, i),
                       fmt::format("edges {} and {} both lead from '{}' to '{}', wanted one", first->second,
                                   i, names[edge.from.index()], names[edge.to.index()]));
  }
  return {};
}

// A cycle is the deeper fault, so it is looked for first.
Result<void> check_directions(const std::vector<Edge>& edges, const std::vector<std::string>& names,
                              const std::string& where) {
  const auto backward = [](const Edge& edge) { return edge.from >= edge.to; };
  const auto found = std::find_if(edges.begin(), edges.end(), backward);
  if (found == edges.end()) return {};
  Pairs pairs;
  for (const Edge& edge : edges) pairs.emplace_back(edge.from.index(), edge.to.index());
  PIPEPLAN_CHECK(topological_order(names, pairs, where + "#/edges"));
  const std::string& from = names[found->from.index()];
  const std::string& to = names[found->to.index()];
  return bad_input(
      edge_place(where, static_cast<std::size_t>(found - edges.begin())),
      fmt::format("edge from '{}' to '{}' leads backward, wanted each layer after those that feed it", from,
                  to),
      fmt::format("put layer '{}' after layer '{}'", to, from));
}

bool by_ends(const Edge& a, const Edge& b) { return std::pair(a.from, a.to) < std::pair(b.from, b.to); }

std::size_t count_of_neighbouring(const std::vector<Edge>& edges) {
  return static_cast<std::size_t>(std::count_if(
      edges.begin(), edges.end(), [](const Edge& edge) { return edge.from.next() == edge.to; }));
}

}  // namespace

Result<ModelGraph> ModelGraph::make(std::string name, PerId<LayerId, Layer> layers, std::vector<Edge> edges,
                                    const std::string& where) {
  PIPEPLAN_CHECK(check_names(layers, where));
  if (edges.empty()) edges = chain_edges(layers.size());
  const std::vector<std::string> names = names_of(layers);
  PIPEPLAN_CHECK(check_edges(edges, names, where));
  PIPEPLAN_CHECK(check_directions(edges, names, where));
  std::sort(edges.begin(), edges.end(), by_ends);

  ModelGraph graph;
  graph.name_ = std::move(name);
  graph.layers_ = std::move(layers);
  graph.edges_ = std::move(edges);
  // A path through all layers leaves no second order; without one, some two neighbours could change places.
  graph.single_order_ = count_of_neighbouring(graph.edges_) + 1 == graph.layers_.size();
  return graph;
}

bool ModelGraph::runnable() const {
  const bool specified = std::all_of(layers_.begin(), layers_.end(),
                                     [](const Layer& layer) { return layer.runnable.has_value(); });
  return specified && single_order_ && edges_.size() + 1 == layers_.size();
}

Result<std::vector<std::size_t>> topological_order(const std::vector<std::string>& names, const Pairs& edges,
                                                   const std::string& where) {
  Graph graph(names.size());
  for (const auto& [from, to] : edges) {
    PIPEPLAN_ASSERT(from < names.size() && to < names.size());
    add_edge(from, to, graph);
  }
  std::vector<std::size_t> order = order_as_far_as_possible(graph);
  if (order.size() == names.size()) return order;
  return bad_input(where, cycle_text(shortest_cycle_through(smallest_on_cycle(graph), graph), names));
}

std::vector<Edge> chain_edges(std::size_t layer_count) {
  std::vector<Edge> edges;
  for (std::size_t i = 0; i + 1 < layer_count; ++i)
    edges.push_back({id_of<LayerId>(i), id_of<LayerId>(i + 1)});
  return edges;
}

}  // namespace pipeplan
