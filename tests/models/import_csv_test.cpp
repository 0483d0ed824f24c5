#include "models/import/csv.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "models/base/json_file.hpp"
#include "models/import/csv_cells.hpp"
#include "tests/support/reference.hpp"

namespace pipeplan {
namespace {

constexpr const char* header =
    "name,kind,forward_us,backward_us,parameter_bytes,activation_bytes,output_bytes\n";

ImportedModel import_table(const std::string& text) {
  const auto imported = import_csv(text, "t.csv");
  INFO(text);
  REQUIRE(imported.has_value());
  return *imported;
}

Error import_error(const std::string& text) {
  const auto imported = import_csv(text, "t.csv");
  INFO(text);
  REQUIRE_FALSE(imported.has_value());
  return imported.error();
}

// A table of one layer, "a,<cell>", under the columns name and `column`, and times of 1 where it does not
// give them.
std::string one_layer(const std::string& column, const std::string& cell) {
  std::string titles = "name," + column, cells = "a," + cell;
  if (!column.starts_with("forward")) titles += ",forward_ns", cells += ",1";
  if (!column.starts_with("backward")) titles += ",backward_ns", cells += ",1";
  return titles + "\n" + cells + "\n";
}

using Cells = std::vector<std::string>;

}  // namespace

TEST_CASE("csv_cells: quotes hold commas, blanks and doubled quotes") {
  CHECK(csv_cells("a,b,c", "p").value() == Cells{"a", "b", "c"});
  CHECK(csv_cells("\"a,b\",c", "p").value() == Cells{"a,b", "c"});
  CHECK(csv_cells("\"say \"\"hi\"\"\",", "p").value() == Cells{"say \"hi\"", ""});
  CHECK(csv_cells("\"\"\"\",\"\"", "p").value() == Cells{"\"", ""});
  CHECK(csv_cells("  a b , \" c \" ,\td", "p").value() == Cells{"a b", " c ", "d"});
  CHECK(csv_cells("", "p").value() == Cells{""});
  CHECK(csv_cells(",,", "p").value() == Cells{"", "", ""});
}

TEST_CASE("csv_cells: quotes that do not close, stop early or stand in the middle are refused") {
  CHECK(csv_cells("a,\"b", "p").error().message == "cell 2 has no closing quote on its line");
  CHECK(csv_cells("\"a\"b,c", "p").error().message == "cell 1 goes on after its closing quote");
  CHECK(csv_cells("a,b\"c\"", "p").error().message.starts_with("cell 2 has a quote in its middle"));
}

TEST_CASE("import_csv: a row per layer, a chain in the given order") {
  const ImportedModel model = import_table(
      std::string(header) + "conv,conv2d,1.5,3,400,1000,2000\n\"fc, last\",linear,0,0.001,0,0,0\n");
  CHECK(model.graph.layers().size() == 2);
  CHECK(model.graph.edges() == chain_edges(2));
  CHECK(model.graph.name() == "t");
  CHECK(model.graph.layers()[LayerId{1}].name == "fc, last");
  CHECK(model.graph.layers()[LayerId{0}].kind == "conv2d");
  const ImportedCost& conv = model.costs[LayerId{0}];
  CHECK(conv.forward.count() == 1500);
  CHECK(conv.backward_input.count() == 3000);
  CHECK_FALSE(conv.backward_is_split);
  CHECK(conv.parameter_bytes == Bytes{400});
  CHECK(conv.activation_bytes == Bytes{1000});
  CHECK(conv.output_bytes == Bytes{2000});
  CHECK(model.costs[LayerId{1}].backward_input.count() == 1);
}

TEST_CASE("import_csv: every unit of time and size") {
  struct Case {
    const char* unit;
    std::int64_t factor;
  };
  for (const Case& c : {Case{"ns", 1}, {"us", 1'000}, {"ms", 1'000'000}, {"s", 1'000'000'000}}) {
    CHECK(import_table(one_layer(fmt::format("forward_{}", c.unit), "3")).costs[LayerId{0}].forward.count() ==
          3 * c.factor);
    CHECK(import_table(one_layer(fmt::format("backward_{}", c.unit), "3"))
              .costs[LayerId{0}]
              .backward_input.count() == 3 * c.factor);
  }
  for (const Case& c : {Case{"bytes", 1}, {"kib", 1024}, {"mib", 1024 * 1024}, {"gib", 1024 * 1024 * 1024}}) {
    CHECK(
        import_table(one_layer(fmt::format("output_{}", c.unit), "3")).costs[LayerId{0}].output_bytes.value ==
        3 * c.factor);
    CHECK(import_table(one_layer(fmt::format("parameter_{}", c.unit), "3"))
              .costs[LayerId{0}]
              .parameter_bytes.value == 3 * c.factor);
    CHECK(import_table(one_layer(fmt::format("activation_{}", c.unit), "3"))
              .costs[LayerId{0}]
              .activation_bytes.value == 3 * c.factor);
  }
}

TEST_CASE("import_csv: the backward may come in its two parts, columns in any order") {
  const ImportedModel model = import_table("backward_weight_us,forward_us,backward_input_us,name\n3,1,2,a\n");
  CHECK(model.costs[LayerId{0}].backward_is_split);
  CHECK(model.costs[LayerId{0}].backward_input.count() == 2 * 1000);
  CHECK(model.costs[LayerId{0}].backward_weight.count() == 3 * 1000);
}

TEST_CASE("import_csv: byte-order mark, CRLF, blank lines and a missing last line end do not matter") {
  const ImportedModel model =
      import_table("\xEF\xBB\xBFname,forward_us,backward_us\r\n\r\na,1,2\r\n   \r\n\"b\",3,4");
  CHECK(model.graph.layers().size() == 2);
  CHECK(model.graph.layers()[LayerId{1}].name == "b");
  CHECK(model.costs[LayerId{1}].backward_input.count() == 4000);
}

TEST_CASE("import_csv: a column without its unit is refused, and the units are listed") {
  const Error error = import_error("name,forward,backward_us\na,1,2\n");
  CHECK(error.where == "t.csv:1");
  CHECK(error.message ==
        "column 'forward' has no unit, wanted one of forward_ns, forward_us, forward_ms, forward_s");
  CHECK(import_error("name,forward_us,backward_us,output\na,1,2,3\n")
            .message.starts_with("column 'output' has no unit"));
}

TEST_CASE("import_csv: an unknown column is refused with the nearest spelling") {
  const Error error = import_error("\nname,foward_us,backward_us\na,1,2\n");
  CHECK(error.where == "t.csv:2");
  CHECK(error.message == "unknown column 'foward_us'");
  CHECK(error.hint == "did you mean 'forward_us'?");
  CHECK(import_error("name;forward_us;backward_us\na;1;2\n").hint == "separate the columns with commas");
  CHECK(import_error("name,forward_us,backward_us,\na,1,2,\n").message == "unknown column ''");
}

TEST_CASE("import_csv: a column that comes twice is refused, also in another unit or in parts") {
  CHECK(import_error("name,forward_us,forward_us,backward_us\na,1,1,2\n").where == "t.csv:1");
  CHECK(import_error("name,forward_us,forward_ms,backward_us\na,1,1,2\n").message ==
        "columns 'forward_us' and 'forward_ms' both give forward");
  CHECK(import_error("name,forward_us,backward_us,backward_input_us\na,1,1,2\n").message.find("in parts") !=
        std::string::npos);
}

TEST_CASE("import_csv: name, forward and backward are required") {
  CHECK(import_error("forward_us,backward_us\n1,2\n").message == "has no column name");
  CHECK(import_error("name,backward_us\na,2\n").message.starts_with("has no column forward"));
  CHECK(import_error("name,forward_us\na,2\n").message.starts_with("has no column backward"));
  CHECK(import_error("name,forward_us,backward_input_us\na,2,3\n")
            .message.starts_with("has no column backward_weight"));
  CHECK(import_error("name,forward_us,backward_weight_us\na,2,3\n")
            .message.starts_with("has no column backward_input"));
}

TEST_CASE("import_csv: ragged rows, empty and repeated names are refused by line") {
  const std::string top = "name,forward_us,backward_us\na,1,2\n";
  CHECK(import_error(top + "b,1\n").where == "t.csv:3");
  CHECK(import_error(top + "b,1\n").message == "has 2 cells, wanted 3 as in the header");
  CHECK(import_error(top + "b,1,2,3\n").message == "has 4 cells, wanted 3 as in the header");
  CHECK(import_error(top + ",1,2\n").message == "name is empty, wanted at least one character");
  CHECK(import_error(top + "\n\"\",1,2\n").where == "t.csv:4");
  CHECK(import_error(top + "b,1,2\na,3,4\n").where == "t.csv:4");
  CHECK(import_error(top + "\"b\nc\",3,4\n").where == "t.csv:3");
  CHECK(import_error(top + "b\xff,1,2\n").where == "t.csv:3");
}

TEST_CASE("import_csv: a bad number is named by line, column and layer") {
  for (const char* cell : {"nan", "inf", "-1", "1e999", "1;5", "", "ten", "1 2", "9007199254740992"}) {
    const Error error = import_error(one_layer("forward_ns", cell));
    CHECK(error.where == "t.csv:2");
    CHECK(error.message.starts_with("forward_ns of layer 'a' is"));
  }
  CHECK(import_error(one_layer("output_gib", "9000000")).message.starts_with("output_gib of layer 'a' is"));
}

TEST_CASE("import_csv: a table without layers is refused") {
  CHECK(import_error("").where == "t.csv");
  CHECK(import_error(header).message == "has a header and no layers");
}

TEST_CASE("import_csv: the model is named after the file, in UTF-8 whatever the file is called") {
  const auto name_of = [](const std::string& source) {
    return import_csv("name,forward_us,backward_us\na,1,2\n", source)->graph.name();
  };
  CHECK(name_of("tables/vgg16.csv") == "vgg16");
  CHECK(name_of("gpt2.1.graph.txt") == "gpt2.1");
  CHECK(name_of("stdin") == "stdin");
  CHECK(name_of("a\xff.csv") == "a\xEF\xBF\xBD");
}

TEST_CASE("import_csv: times that could not be added up are refused") {
  // 600 * (2^53 - 1) ns are more than 2^62 ns.
  std::string text = "name,forward_ns,backward_ns\n";
  for (int i = 0; i < 600; ++i) text += fmt::format("l{},9007199254740991,0\n", i);
  CHECK(import_error(text).message.find("2^62") != std::string::npos);
}

TEST_SUITE("reference") {
  TEST_CASE("import_csv: one profile in two units is one profile, and without a unit none") {
    const auto read = read_json_file((test::case_folder() / "44-latency-unit-1000x.json").string());
    REQUIRE(read.has_value());
    const auto table = [](const Json& profile) {
      const std::string unit =
          profile["time_unit"].is_null() ? "" : fmt::format("_{}", profile["time_unit"].get<std::string>());
      std::string text = fmt::format("name,forward{0},backward{0}\n", unit);
      for (const Json& layer : profile["layers"])
        text += fmt::format("{},{},{}\n", layer[0].get<std::string>(), layer[1].dump(), layer[2].dump());
      return text;
    };
    const Json& input = (*read)["input"];
    const ImportedModel a = import_table(table(input["profile_a"])),
                        b = import_table(table(input["profile_b"]));
    for (const LayerId id : ids<LayerId>(3)) {
      CHECK(a.costs[id].forward == b.costs[id].forward);
      CHECK(a.costs[id].backward_input == b.costs[id].backward_input);
    }
    CHECK(a.costs[LayerId{0}].forward.count() == 1500 * 1000);
    CHECK(import_error(table(input["profile_c"])).message.find("has no unit") != std::string::npos);
  }
}

}  // namespace pipeplan
