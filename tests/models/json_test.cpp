// What documents may hold and where errors say it is: the strict reader of models/base, and the files it
// writes.

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "models/base/digest.hpp"
#include "models/base/json_reader.hpp"
#include "tests/support/reference.hpp"

namespace pipeplan {
namespace {

Error parse_error(std::string_view text) {
  const auto parsed = parse_json(text, "doc.json");
  REQUIRE_FALSE(parsed.has_value());
  return parsed.error();
}

Json parsed(std::string_view text) {
  const auto json = parse_json(text, "doc.json");
  INFO(text);
  REQUIRE(json.has_value());
  return *json;
}

std::string nested(int depth) {
  return std::string(static_cast<std::size_t>(depth), '[') +
         std::string(static_cast<std::size_t>(depth), ']');
}

// What a reader of one field says of `text`; empty where it is content.
template<class Read>
Error field_error(std::string_view text, Read read) {
  const Json json = parsed(text);
  JsonSource source("doc.json");
  ObjectReader reader(source, json, "");
  read(reader);
  reader.done();
  const auto result = source.result(0);
  return result ? Error{} : result.error();
}

std::filesystem::path fresh_folder(const std::string& name) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("pipeplan_" + name + std::to_string(::getpid()));
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

std::size_t file_count(const std::filesystem::path& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

}  // namespace

TEST_CASE("json: a key that appears twice is refused by name, at any depth") {
  CHECK(parse_error(R"({"a": 1, "a": 1})").message == "key 'a' appears twice");
  CHECK(parse_error(R"({"a": [0, {"b": 1, "c": 2, "b": 3}]})").where == "doc.json#/a/1/b");
  CHECK(parsed(R"({"a": {"a": 1}, "b": {"a": 1}})").size() == 2);
}

TEST_CASE("json: integers are exact up to 9007199254740991 and refused beyond, both ways") {
  CHECK(parsed("[9007199254740991]")[0].get<std::int64_t>() == (std::int64_t{1} << 53) - 1);
  CHECK(parsed("[-9007199254740991]")[0].get<std::int64_t>() == -((std::int64_t{1} << 53) - 1));
  for (const char* number :
       {"9007199254740992", "-9007199254740992", "9223372036854775808", "18446744073709551616",
        "-9223372036854775809", "100000000000000000000000000000"}) {
    const Error error = parse_error(std::string("{\"x\": [0, ") + number + "]}");
    CHECK(error.message.find(number) != std::string::npos);
    CHECK(error.where == "doc.json#/x/1");
  }
}

TEST_CASE("json: a number that overflows is refused with its place") {
  for (const char* number : {"1e999", "-1e999", "1.7e309"}) {
    const Error error = parse_error(std::string("{\"x\":\n  ") + number + "}");
    CHECK(error.code == ErrorCode::bad_input);
    CHECK(error.message.find("too large") != std::string::npos);
    CHECK(error.where.starts_with("doc.json:2:"));
  }
}

TEST_CASE("json: what only JavaScript allows is refused") {
  for (const char* text : {"[NaN]", "[Infinity]", "[-Infinity]", "[1,]", "{'a': 1}", "[01]", "[+1]", "[.5]",
                           "[1.]", "[0x10]", "// no\n[1]", "[1] [2]", "[\"\\x41\"]", "[\"\t\"]", "nul"}) {
    INFO(text);
    CHECK(parse_error(text).message.starts_with("not valid JSON"));
  }
}

TEST_CASE("json: the place of a fault is its line and column") {
  CHECK(parse_error("{\n  \"a\": 1,\n  \"b\": NaN\n}").where == "doc.json:3:8");
  CHECK(parse_error("[1 2]").where == "doc.json:1:4");
  CHECK(parse_error("[1,\n2,\n!]").where == "doc.json:3:1");
}

TEST_CASE("json: a document that stops early or holds nothing is refused") {
  for (const char* text : {"{", "[1", "{\"a\"", "{\"a\":", "\"abc", "{\"a\": 1", "[[1]"}) {
    INFO(text);
    CHECK(parse_error(text).where.starts_with("doc.json:1:"));
  }
  for (const char* text : {"", " \n\t\r\n"})
    CHECK(parse_error(text).message == "is empty, wanted a JSON document");
}

TEST_CASE("json: nesting goes to 64 and no deeper") {
  CHECK(parsed(nested(64)).size() == 1);
  CHECK(parse_error(nested(65)).message == "nested deeper than 64 levels");
  // Far deeper must not exhaust the stack either.
  CHECK(parse_error(nested(1'000'000)).message == "nested deeper than 64 levels");
}

TEST_CASE("json: bytes that are not UTF-8 are refused, names in any script are kept to the byte") {
  for (const char* text :
       {"[\"\xff\"]", "[\"\xc3\"]", "[\"\xc0\xaf\"]", "[\"\xed\xa0\x80\"]", "[\"\xf4\x90\x80\x80\"]"})
    CHECK(parse_error(text).where.starts_with("doc.json:1:"));
  const std::string names = "[\"编码器.0\",\"décodeur–1\",\"😀\"]";
  CHECK(parsed(names).dump() == names);
  CHECK(parsed(R"(["\u00e9\ud83d\ude00"])")[0].get<std::string>() == "é😀");
}

TEST_CASE("json: messages are short and UTF-8 themselves, whatever the document holds") {
  const std::string long_token = "[\"" + std::string(100'000, 'x');
  CHECK(parse_error(long_token).message.size() < 300);
  for (const std::string& text : {std::string("[\"\xff\"]"), long_token + "\xff\"]"}) {
    const std::string message = parse_error(text).message;
    CHECK(parsed(Json(message).dump()).get<std::string>() == message);
  }
}

TEST_CASE("shortened: cuts between characters and replaces what is not UTF-8") {
  CHECK(shortened("abc", 3) == "abc");
  CHECK(shortened("abcd", 3) == "abc…");
  CHECK(shortened("aé", 3) == "aé");
  CHECK(shortened("aéb", 2) == "a…");
  CHECK(shortened("😀b", 3) == "…");
  CHECK(shortened("a\xff", 9) == "a\xEF\xBF\xBD");
  CHECK(shortened("", 0).empty());
}

TEST_CASE("json: keys keep their order") {
  const std::string text = R"({"z":1,"a":{"y":2,"b":3},"m":[]})";
  CHECK(parsed(text).dump() == text);
}

TEST_CASE("json_reader: an integer must be spelt as one") {
  const auto read = [](ObjectReader& reader) { reader.integer("x", 1, 10); };
  CHECK(field_error(R"({"x": 10})", read).message.empty());
  CHECK(field_error(R"({"x": 1.5e3})", read).message == "is 1500.0, wanted an integer");
  CHECK(field_error(R"({"x": 1.0})", read).message == "is 1.0, wanted an integer");
  CHECK(field_error(R"({"x": "1"})", read).message == "is \"1\", wanted an integer");
  CHECK(field_error(R"({"x": true})", read).message == "is true, wanted an integer");
  CHECK(field_error(R"({"x": null})", read).message == "is null, wanted an integer");
  CHECK(field_error(R"({"x": [1, 2]})", read).message == "is an array of 2, wanted an integer");
  CHECK(field_error(R"({"x": 0})", read).message == "is 0, wanted at least 1");
  CHECK(field_error(R"({"x": 11})", read).message == "is 11, wanted at most 10");
  CHECK(field_error(R"({})", read).message == "is missing");
}

TEST_CASE("json_reader: the place is a JSON pointer, with its escapes") {
  const auto read = [](ObjectReader& reader) {
    ObjectReader inner = reader.object("a/b").object("m~n");
    for (ObjectReader& item : inner.objects("items")) item.time("forward_ns"), item.done();
  };
  const Error error =
      field_error(R"({"a/b": {"m~n": {"items": [{"forward_ns": 1}, {"forward_ns": -5}]}}})", read);
  CHECK(error.where == "doc.json#/a~1b/m~0n/items/1/forward_ns");
  CHECK(error.message == "is -5, wanted at least 0");
}

TEST_CASE("json_reader: an unknown key is refused with the nearest known one") {
  const auto read = [](ObjectReader& reader) { reader.optional_integer("forward_ns"); };
  const Error error = field_error(R"({"forward_us": 1})", read);
  CHECK(error.where == "doc.json#/forward_us");
  CHECK(error.message == "unknown key 'forward_us'");
  CHECK(error.hint == "did you mean 'forward_ns'?");
}

TEST_CASE("json_reader: a comment is allowed if it is text") {
  const auto nothing = [](ObjectReader&) {};
  CHECK(field_error(R"({"comment": "by hand"})", nothing).message.empty());
  CHECK(field_error(R"({"comment": 3})", nothing).where == "doc.json#/comment");
}

TEST_CASE("json_reader: the first fault wins and an error never holds a subtree") {
  const auto read = [](ObjectReader& reader) { reader.integer("a"), reader.text("b"); };
  CHECK(field_error(R"({"a": "x", "b": 1})", read).where == "doc.json#/a");
  const std::string big = R"({"a": {"secret": "subtree"}, "b": "x"})";
  CHECK(field_error(big, read).message == "is an object, wanted an integer");
  const std::string wide = "{\"a\": \"" + std::string(1000, 'x') + "\", \"b\": \"x\"}";
  CHECK(field_error(wide, read).message.size() < 100);
}

TEST_CASE("json_reader: a null optional field counts as absent") {
  const Json json = parsed(R"({"a": null, "b": null, "c": null, "d": null})");
  JsonSource source("doc.json");
  ObjectReader reader(source, json, "");
  CHECK_FALSE(reader.optional_integer("a").has_value());
  CHECK_FALSE(reader.optional_number("b", 0, 1).has_value());
  CHECK_FALSE(reader.optional_text("c").has_value());
  CHECK(reader.flag("d", true));
  reader.done();
  CHECK_FALSE(source.failed());
}

TEST_CASE("write_text_file: a file is replaced as a whole and nothing else is left") {
  const auto folder = fresh_folder("write");
  const std::string path = (folder / "plan.json").string();
  REQUIRE(write_text_file(path, "a long first text").has_value());
  REQUIRE(write_text_file(path, "short").has_value());
  CHECK(read_text_file(path).value() == "short");
  CHECK(file_count(folder) == 1);
  std::filesystem::remove_all(folder);
}

TEST_CASE("write_text_file: a missing folder or a folder in the way is an error that leaves nothing") {
  const auto folder = fresh_folder("unwritable");
  std::filesystem::create_directories(folder / "taken");
  for (const std::string& path : {(folder / "missing" / "plan.json").string(), (folder / "taken").string()}) {
    const auto written = write_text_file(path, "text");
    REQUIRE_FALSE(written.has_value());
    CHECK(written.error().code == ErrorCode::unavailable);
    CHECK(written.error().where == path);
  }
  CHECK(file_count(folder) == 1);
  CHECK(file_count(folder / "taken") == 0);
  std::filesystem::remove_all(folder);
}

TEST_CASE("read_json_file: a missing file and a folder are named") {
  const auto folder = fresh_folder("read");
  CHECK(read_json_file((folder / "none.json").string()).error().code == ErrorCode::unavailable);
  CHECK(read_json_file(folder.string()).error().message == "is a folder, wanted a file");
  std::filesystem::remove_all(folder);
}

TEST_CASE("digest: comments do not count, values and their order do") {
  const std::string plain = digest(parsed(R"({"a": 1, "b": [{"c": 2}]})"));
  CHECK(plain.size() == std::string("xxh3:").size() + 16);
  CHECK(digest(parsed(R"({"comment": "x", "a": 1, "b": [{"comment": "y", "c": 2}]})")) == plain);
  CHECK(digest(parsed(R"({"a": 1, "b": [{"c": 3}]})")) != plain);
  CHECK(digest(parsed(R"({"b": [{"c": 2}], "a": 1})")) != plain);
}

TEST_SUITE("reference") {
  TEST_CASE("json: broken traces from the field are refused with line and column") {
    const auto read = read_json_file((test::case_folder() / "48-broken-or-odd-json-trace.json").string());
    REQUIRE(read.has_value());
    std::size_t broken = 0;
    for (const Json& file : (*read)["input"]["files"]) {
      std::string text = file.value("text", "");
      const std::string hex = file.value("hex", "");
      for (std::size_t i = 0; i < hex.size(); i += 2)
        text += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
      if (text.empty()) continue;
      ++broken;
      CHECK(parse_error(text).where.starts_with("doc.json:1:"));
    }
    CHECK(broken == 3);
  }
}

}  // namespace pipeplan
