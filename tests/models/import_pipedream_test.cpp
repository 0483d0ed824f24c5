#include "models/import/pipedream.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "models/base/json_file.hpp"
#include "tests/support/reference.hpp"

namespace pipeplan {
namespace {

// Numbered 1, 2, 3, 10 in an order of its own, with a skip from 1 to 10.
constexpr const char* small_graph =
    "node10 -- Linear(in_features=4, out_features=2) -- forward_compute_time=1.500, "
    "backward_compute_time=3.000, "
    "activation_size=8.0, parameter_size=40.000\n"
    "node2 -- LSTM(2048, 1024) -- forward_compute_time=0.001, backward_compute_time=0.000, "
    "activation_size=[100.0; 20.0; 3.0], parameter_size=0.000\n"
    "node1 -- Input0 -- forward_compute_time=0.000, backward_compute_time=0.000, activation_size=0.0, "
    "parameter_size=0.000\n"
    "\tnode3 -- node10\n"
    "\tnode1 -- node10\n"
    "node3 -- odd -- name(1, 2) -- forward_compute_time=0.5, backward_compute_time=1, activation_size=7, "
    "parameter_size=0 -- stage_id=4\n"
    "    node2 -- node3\n"
    "\tnode1 -- node2\n";

Error import_error(const std::string& text) {
  const auto imported = import_pipedream(text, "g.txt");
  INFO(text);
  REQUIRE_FALSE(imported.has_value());
  return imported.error();
}

// The small graph with one piece of it replaced.
Error error_with(const std::string& piece, const std::string& replacement) {
  std::string text = small_graph;
  const std::size_t at = text.find(piece);
  REQUIRE(at != std::string::npos);
  return import_error(text.replace(at, piece.size(), replacement));
}

std::vector<std::string> names(const ImportedModel& model) {
  std::vector<std::string> names;
  for (const Layer& layer : model.graph.layers()) names.push_back(layer.name);
  return names;
}

Nanoseconds total_forward(const ImportedModel& model) {
  Nanoseconds sum{};
  for (const ImportedCost& cost : model.costs) sum += cost.forward;
  return sum;
}

Nanoseconds total_backward(const ImportedModel& model) {
  Nanoseconds sum{};
  for (const ImportedCost& cost : model.costs) sum += cost.backward_input + cost.backward_weight;
  return sum;
}

ImportedModel import_reference(const std::string& file) {
  const std::string path = (test::data_folder() / "pipedream" / file).string();
  const auto text = read_text_file(path);
  REQUIRE(text.has_value());
  const auto imported = import_pipedream(*text, path);
  INFO(path);
  REQUIRE(imported.has_value());
  return *imported;
}

}  // namespace

TEST_CASE("import_pipedream: layers come in topological order, the smallest number first") {
  const ImportedModel model = import_pipedream(small_graph, "graphs/small.graph.txt").value();
  CHECK(names(model) == std::vector<std::string>{"node1", "node2", "node3", "node10"});
  const std::vector<Edge> edges{
      {LayerId{0}, LayerId{1}}, {LayerId{0}, LayerId{3}}, {LayerId{1}, LayerId{2}}, {LayerId{2}, LayerId{3}}};
  CHECK(model.graph.edges() == edges);
  CHECK(model.graph.name() == "small");
  CHECK(model.tool == "pipedream");
}

TEST_CASE("import_pipedream: an edge against the numbers moves the layer behind its input") {
  const std::string fields =
      " -- x -- forward_compute_time=1, backward_compute_time=1, activation_size=1, parameter_size=1\n";
  const std::string text = "0" + fields + "1" + fields + "2" + fields + "\t0 -- 2\n\t2 -- 1\n";
  CHECK(names(import_pipedream(text, "g.txt").value()) == std::vector<std::string>{"0", "2", "1"});
}

TEST_CASE("import_pipedream: milliseconds become ns, sizes bytes, lists of sizes their sum") {
  const ImportedModel model = import_pipedream(small_graph, "g.txt").value();
  const ImportedCost& last = model.costs[LayerId{3}];
  CHECK(last.forward.count() == 1'500'000);
  CHECK(last.backward_input.count() == 3'000'000);
  CHECK(last.backward_weight.count() == 0);
  CHECK_FALSE(last.backward_is_split);
  CHECK(last.parameter_bytes == Bytes{40});
  CHECK(model.graph.layers()[LayerId{3}].parameter_count == 40 / 4);
  CHECK(model.costs[LayerId{1}].activation_bytes == Bytes{100 + 20 + 3});
  CHECK(model.costs[LayerId{1}].output_bytes == Bytes{100 + 20 + 3});
}

TEST_CASE("import_pipedream: a kind is the head of its description, which may hold commas and separators") {
  const ImportedModel model = import_pipedream(small_graph, "g.txt").value();
  std::string kinds;
  for (const Layer& layer : model.graph.layers()) kinds += layer.kind + " ";
  CHECK(kinds == "Input0 LSTM odd Linear ");
}

TEST_CASE("import_pipedream: line ends, blank lines and the order of lines do not matter") {
  std::string dressed = "\xEF\xBB\xBF\r\n";
  for (const char* c = small_graph; *c != '\0'; ++c) dressed += *c == '\n' ? "\r\n\r\n" : std::string(1, *c);
  dressed.resize(dressed.find_last_not_of("\r\n") + 1);
  const ImportedModel plain = import_pipedream(small_graph, "g.txt").value();
  const ImportedModel other = import_pipedream(dressed, "g.txt").value();
  CHECK(names(other) == names(plain));
  CHECK(other.graph.edges() == plain.graph.edges());
  CHECK(total_forward(other) == total_forward(plain));
}

TEST_CASE("import_pipedream: a bad number is named by line, field and node") {
  for (const char* value : {"nan", "inf", "-0.5", "1e999", "x", "", "1.5ms"}) {
    const Error error =
        error_with("forward_compute_time=1.500", std::string("forward_compute_time=") + value);
    CHECK(error.where == "g.txt:1");
    CHECK(error.message.starts_with("forward_compute_time of node10 is"));
  }
  CHECK(error_with("[100.0; 20.0; 3.0]", "[100.0; ; 3.0]").where == "g.txt:2");
  CHECK(error_with("[100.0; 20.0; 3.0]", "[100.0; 20.0").message.starts_with("activation_size of node2 is"));
  CHECK(error_with("[100.0; 20.0; 3.0]", "[9e15; 9e15]").message.find("2^53-1") != std::string::npos);
}

TEST_CASE("import_pipedream: missing, doubled and unknown fields are refused") {
  CHECK(error_with(", parameter_size=40.000", "").message == "node10 has no parameter_size");
  CHECK(error_with("parameter_size=40.000", "parameter_size=40, parameter_size=40").message ==
        "node10 has parameter_size twice");
  const Error unknown = error_with("parameter_size=40.000", "parameter_sise=40.000");
  CHECK(unknown.where == "g.txt:1");
  CHECK(unknown.hint == "did you mean 'parameter_size'?");
  CHECK(error_with("parameter_size=40.000", "parameter_size").where == "g.txt:1");
}

TEST_CASE("import_pipedream: lines that are neither node nor edge are refused") {
  CHECK(error_with("\tnode1 -- node2\n", "node1 -- node2\n").where == "g.txt:8");
  CHECK(error_with("\tnode1 -- node2\n", "\tnode1\n").where == "g.txt:8");
  CHECK(error_with("\tnode1 -- node2\n", "\tnode1 -- node2 -- node3\n").where == "g.txt:8");
  CHECK(error_with("node10 -- Linear", "tail -- Linear").message.starts_with("node id is 'tail'"));
  CHECK(error_with("odd", "\xff").where == "g.txt:6");
}

TEST_CASE("import_pipedream: edges must join known nodes, once, without a cycle") {
  CHECK(error_with("\tnode1 -- node2\n", "\tnode1 -- node7\n").message ==
        "edge names node7, which is no node");
  const Error twice = error_with("\tnode1 -- node2\n", "\tnode1 -- node2\n\tnode1 -- node2\n");
  CHECK(twice.where == "g.txt:9");
  CHECK(twice.message.find("line 8") != std::string::npos);
  const Error cycle = error_with("\tnode1 -- node2\n", "\tnode1 -- node2\n\tnode10 -- node2\n");
  CHECK(cycle.message == "cycle node2 -> node3 -> node10 -> node2");
  CHECK(error_with("\tnode1 -- node2\n", "\tnode1 -- node1\n").message.find("cycle") != std::string::npos);
}

TEST_CASE("import_pipedream: a node that comes twice is refused at its second line") {
  const Error error = error_with("node3 -- odd", "node2 -- odd");
  CHECK(error.where == "g.txt:6");
  CHECK(error.message == "node2 is already on line 2");
}

TEST_CASE("import_pipedream: a file without nodes or cut off before its edges is refused") {
  CHECK(import_error("").message == "has no nodes");
  CHECK(import_error("\n\n").where == "g.txt");
  const std::string text = small_graph;
  CHECK(import_error(text.substr(0, text.find("\tnode3"))).message.find("no edges") != std::string::npos);
}

TEST_SUITE("reference") {
  TEST_CASE("import_pipedream: all fourteen measured graphs, with their nodes and edges") {
    struct Expected {
      const char* file;
      std::size_t nodes, edges;
    };
    // Lines of the files that start without and with a TAB.
    for (const Expected& expected : {Expected{"alexnet", 23, 23},
                                     {"densenet121", 429, 487},
                                     {"gnmt", 48, 58},
                                     {"gnmt_large", 96, 122},
                                     {"inception_v3", 326, 362},
                                     {"nasnetalarge", 1251, 1468},
                                     {"nasnetamobile", 921, 1078},
                                     {"resnet101", 347, 380},
                                     {"resnet18", 71, 79},
                                     {"resnet50", 177, 193},
                                     {"resnext101", 347, 380},
                                     {"resnext50", 177, 193},
                                     {"squeezenet1_0", 68, 76},
                                     {"vgg16", 41, 41}}) {
      const ImportedModel model = import_reference(std::string(expected.file) + ".graph.txt");
      INFO(expected.file);
      CHECK(model.graph.name() == expected.file);
      CHECK(model.graph.layers().size() == expected.nodes);
      CHECK(model.graph.edges().size() == expected.edges);
      CHECK(model.costs.size() == expected.nodes);
    }
  }

  TEST_CASE("import_pipedream: graphs with stage ids give the same network as those without") {
    for (const char* model : {"vgg16", "resnet50"}) {
      const ImportedModel plain = import_reference(std::string(model) + ".graph.txt");
      const ImportedModel staged = import_reference(std::string("partitioned/") + model + "_partitioned.txt");
      CHECK(names(staged) == names(plain));
      CHECK(staged.graph.edges() == plain.graph.edges());
    }
    CHECK(import_reference("partitioned/resnext50_generated.txt").graph.layers().size() == 177);
    CHECK(import_reference("partitioned/test.txt").graph.layers().size() == 6);
    CHECK(import_reference("partitioned/test2.txt").graph.layers().size() == 5);
  }

  TEST_CASE("import_pipedream: VGG-16 has the totals that the case states") {
    const auto read = read_json_file((test::case_folder() / "57-real-pipedream-vgg16.json").string());
    REQUIRE(read.has_value());
    const Json& expected = (*read)["expect"];
    const ImportedModel model = import_reference("vgg16.graph.txt");
    CHECK(model.graph.layers().size() == expected["nodes"].get<std::size_t>());
    CHECK(model.graph.edges().size() == expected["edges"].get<std::size_t>());
    CHECK((total_forward(model) + total_backward(model)).count() ==
          1000 * expected["total_us"].get<std::int64_t>());
    CHECK(model.costs[LayerId{0}].forward.count() ==
          1000 * expected["input_node_forward_us"].get<std::int64_t>());
    std::size_t i = 0;
    for (const Json& id : (*read)["input"]["first_ids"]) CHECK(names(model)[i++] == id.get<std::string>());
    CHECK(i == 6);
  }

  TEST_CASE("import_pipedream: AlexNet has the totals that the case states") {
    const auto read =
        read_json_file((test::case_folder() / "50-warm-up-outlier-in-real-profile.json").string());
    REQUIRE(read.has_value());
    const Json& expected = (*read)["expect"];
    const ImportedModel model = import_reference("alexnet.graph.txt");
    CHECK(model.graph.layers().size() == expected["nodes"].get<std::size_t>());
    CHECK(total_forward(model).count() == 1000 * expected["total_forward_us"].get<std::int64_t>());
    CHECK(total_backward(model).count() == 1000 * expected["total_backward_us"].get<std::int64_t>());
    CHECK(names(model).front() == expected["outlier_node"].get<std::string>());
    CHECK(model.costs[LayerId{0}].forward.count() ==
          1000 * expected["outlier_forward_us"].get<std::int64_t>());
  }
}

}  // namespace pipeplan
