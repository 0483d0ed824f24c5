#include "models/import/pipedream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

#include "models/base/json_file.hpp"
#include "models/base/spelling.hpp"
#include "models/import/text_lines.hpp"

namespace pipeplan {
namespace {

struct Node {
  std::string id;
  std::int64_t number = 0;
  std::string kind;
  ImportedCost cost;
  std::size_t line = 0;
};

struct NamedEdge {
  std::string from, to;
  std::size_t line = 0;
};

struct GraphFile {
  std::vector<Node> nodes;
  std::vector<NamedEdge> edges;
};

constexpr std::string_view separator = " -- ";
constexpr std::string_view stage_field = "stage_id=";
constexpr std::array<std::string_view, 4> field_names{"forward_compute_time", "backward_compute_time",
                                                      "activation_size", "parameter_size"};
using FieldTexts = std::array<std::optional<std::string_view>, field_names.size()>;

constexpr std::int64_t ns_per_ms = 1'000'000;
constexpr std::int64_t bytes_per_parameter = 4;  // PipeDream profiles 32-bit floats

std::vector<std::string_view> split(std::string_view text, std::string_view by) {
  std::vector<std::string_view> pieces;
  for (std::size_t end = text.find(by); end != std::string_view::npos; end = text.find(by)) {
    pieces.push_back(text.substr(0, end));
    text.remove_prefix(end + by.size());
  }
  pieces.push_back(text);
  return pieces;
}

// The number at the end of "node12" or "12".
Result<std::int64_t> node_number(std::string_view id, const std::string& place) {
  const std::size_t last_other = id.find_last_not_of("0123456789");
  const std::string_view digits = id.substr(last_other == std::string_view::npos ? 0 : last_other + 1);
  std::int64_t number = 0;
  const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (status == std::errc{} && end == digits.data() + digits.size()) return number;
  return bad_input(place, fmt::format("node id is '{}', wanted one that ends in a number, as node12", id));
}

// "forward_compute_time=1.5, …" by field; each exactly once.
Result<FieldTexts> field_texts(std::string_view text, std::string_view id, const std::string& place) {
  FieldTexts texts;
  for (const std::string_view field : split(text, ",")) {
    const std::size_t equals = std::min(field.find('='), field.size());
    const std::string_view name = trimmed(field.substr(0, equals));
    const auto known = std::find(field_names.begin(), field_names.end(), name);
    if (known == field_names.end() || equals == field.size()) {
      const auto nearest =
          nearest_spelling(name, std::vector<std::string>(field_names.begin(), field_names.end()));
      return bad_input(
          place,
          fmt::format("{} has a field '{}', wanted {} with values", id, trimmed(field),
                      "forward_compute_time, backward_compute_time, activation_size, parameter_size"),
          nearest ? fmt::format("did you mean '{}'?", *nearest) : "");
    }
    auto& value = texts[static_cast<std::size_t>(known - field_names.begin())];
    if (value) return bad_input(place, fmt::format("{} has {} twice", id, name));
    value = trimmed(field.substr(equals + 1));
  }
  for (std::size_t i = 0; i < texts.size(); ++i)
    if (!texts[i]) return bad_input(place, fmt::format("{} has no {}", id, field_names[i]));
  return texts;
}

Result<std::int64_t> scaled(std::string_view text, std::int64_t unit, const std::string& what,
                            const std::string& place) {
  auto value = parse_scaled(text, unit, what);
  if (!value) return bad_input(place, value.error().message);
  return *value;
}

// A size in bytes, or the sum of "[a; b; c]".
Result<Bytes> size_sum(std::string_view text, const std::string& what, const std::string& place) {
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
  std::int64_t sum = 0;
  for (const std::string_view part : split(text, ";")) {
    PIPEPLAN_TRY(bytes, scaled(trimmed(part), 1, what, place));
    sum += bytes;
    if (sum > largest_document_integer)
      return bad_input(place, fmt::format("{} adds up to over 2^53-1", what));
  }
  return Bytes{sum};
}

Result<ImportedCost> node_cost(const FieldTexts& texts, std::string_view id, const std::string& place) {
  const auto what = [&](std::size_t field) { return fmt::format("{} of {}", field_names[field], id); };
  PIPEPLAN_TRY(forward, scaled(*texts[0], ns_per_ms, what(0), place));
  PIPEPLAN_TRY(backward, scaled(*texts[1], ns_per_ms, what(1), place));
  PIPEPLAN_TRY(activation, size_sum(*texts[2], what(2), place));
  PIPEPLAN_TRY(parameters, size_sum(*texts[3], what(3), place));
  ImportedCost cost;
  cost.forward = Nanoseconds{forward};
  cost.backward_input = Nanoseconds{backward};
  cost.parameter_bytes = parameters;
  cost.activation_bytes = activation;
  cost.output_bytes = activation;
  return cost;
}

Result<Node> parse_node(const TextLine& line, const std::string& place) {
  std::vector<std::string_view> pieces = split(line.text, separator);
  if (pieces.back().starts_with(stage_field)) pieces.pop_back();
  if (pieces.size() < 3)
    return bad_input(place,
                     fmt::format("is '{}', wanted 'id -- description -- fields', or an indented 'id -- id'",
                                 shortened(line.text, 40)));
  // A description may hold the separator itself: its first piece is enough for the kind.
  const std::string_view id = trimmed(pieces.front()), description = pieces[1];
  Node node;
  PIPEPLAN_TRY(number, node_number(id, place));
  PIPEPLAN_TRY(texts, field_texts(pieces.back(), id, place));
  PIPEPLAN_TRY(cost, node_cost(texts, id, place));
  node.id = id;
  node.number = number;
  node.kind = trimmed(description.substr(0, description.find('(')));
  node.cost = cost;
  node.line = line.number;
  return node;
}

Result<NamedEdge> parse_edge(const TextLine& line, const std::string& place) {
  const std::vector<std::string_view> ends = split(line.text, separator);
  if (ends.size() != 2 || trimmed(ends[0]).empty() || trimmed(ends[1]).empty())
    return bad_input(place,
                     fmt::format("is '{}', wanted an edge 'id -- id'", shortened(trimmed(line.text), 40)));
  return NamedEdge{std::string(trimmed(ends[0])), std::string(trimmed(ends[1])), line.number};
}

Result<GraphFile> parse_lines(std::string_view text, const std::string& source) {
  GraphFile file;
  PIPEPLAN_TRY(lines, text_lines(text, source));
  for (const TextLine& line : lines) {
    const std::string place = line_place(source, line.number);
    const bool indented = line.text.front() == '\t' || line.text.front() == ' ';
    if (indented) {
      PIPEPLAN_TRY(edge, parse_edge(line, place));
      file.edges.push_back(std::move(edge));
    } else {
      PIPEPLAN_TRY(node, parse_node(line, place));
      file.nodes.push_back(std::move(node));
    }
  }
  if (file.nodes.empty()) return bad_input(source, "has no nodes");
  if (file.edges.empty() && file.nodes.size() > 1)
    return bad_input(source, fmt::format("has {} nodes and no edges: is it cut off?", file.nodes.size()));
  return file;
}

using NodeNumbers = std::map<std::string, std::size_t>;  // position in `nodes` by id

Result<NodeNumbers> number_nodes(const std::vector<Node>& nodes, const std::string& source) {
  NodeNumbers numbers;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto [earlier, added] = numbers.emplace(nodes[i].id, i);
    if (added) continue;
    const auto [first, second] = std::minmax(nodes[i].line, nodes[earlier->second].line);
    return bad_input(line_place(source, second), fmt::format("{} is already on line {}", nodes[i].id, first));
  }
  return numbers;
}

using NumberedEdge = std::pair<std::size_t, std::size_t>;

Result<std::vector<NumberedEdge>> number_edges(const GraphFile& file, const std::string& source) {
  PIPEPLAN_TRY(numbers, number_nodes(file.nodes, source));
  std::map<NumberedEdge, std::size_t> seen;
  std::vector<NumberedEdge> edges;
  for (const NamedEdge& edge : file.edges) {
    const std::string place = line_place(source, edge.line);
    for (const std::string& id : {edge.from, edge.to})
      if (!numbers.contains(id)) return bad_input(place, fmt::format("edge names {}, which is no node", id));
    edges.emplace_back(numbers[edge.from], numbers[edge.to]);
    const auto [earlier, added] = seen.emplace(edges.back(), edge.line);
    if (!added)
      return bad_input(
          place, fmt::format("edge {} -- {} is already on line {}", edge.from, edge.to, earlier->second));
  }
  return edges;
}

// The layers in `order` (positions in `nodes`), their costs, and the edges between them.
Result<ImportedModel> in_order(const std::vector<Node>& nodes, const std::vector<NumberedEdge>& edges,
                               const std::vector<std::size_t>& order, const std::string& source) {
  PerId<LayerId, Layer> layers;
  PerId<LayerId, ImportedCost> costs;
  std::vector<LayerId> layer_of(nodes.size());
  for (const std::size_t position : order) {
    const Node& node = nodes[position];
    layer_of[position] = layers.end_id();
    layers.push_back({node.id, node.kind, node.cost.parameter_bytes.value / bytes_per_parameter});
    costs.push_back(node.cost);
  }
  std::vector<Edge> layer_edges;
  for (const auto& [from, to] : edges) layer_edges.push_back({layer_of[from], layer_of[to]});
  return assemble_import(std::move(layers), std::move(layer_edges), std::move(costs), "pipedream", source);
}

}  // namespace

Result<ImportedModel> import_pipedream(std::string_view text, const std::string& source) {
  PIPEPLAN_TRY(file, parse_lines(text, source));
  std::sort(file.nodes.begin(), file.nodes.end(), [](const Node& a, const Node& b) {
    return std::pair(a.number, a.id) < std::pair(b.number, b.id);
  });
  PIPEPLAN_TRY(edges, number_edges(file, source));
  std::vector<std::string> names;
  for (const Node& node : file.nodes) names.push_back(node.id);
  PIPEPLAN_TRY(order, topological_order(names, edges, source));
  return in_order(file.nodes, edges, order, source);
}

}  // namespace pipeplan
