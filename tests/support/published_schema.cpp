// The one file of the test programs that includes valijson: it takes long to compile.

#include "tests/support/published_schema.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

// GCC 12 sees an overlap in "text" + std::string that is none (GCC bug 105651).
#pragma GCC diagnostic push
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wrestrict"
#endif
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validator.hpp>
#pragma GCC diagnostic pop

#include "models/base/units.hpp"
#include "tests/support/reference.hpp"

namespace pipeplan::test {
namespace {

using valijson::adapters::NlohmannJsonAdapter;
using PlainJson = nlohmann::json;  // what valijson's adapter takes

PlainJson read_schema(const std::string& name) {
  const auto text = read_text_file((source_folder() / "models/schema" / name).string());
  REQUIRE(text.has_value());
  return PlainJson::parse(*text);
}

// Every place in a document, as JSON pointers; the document itself is "".
void add_places(const Json& json, const std::string& here, std::vector<std::string>& places) {
  places.push_back(here);
  if (json.is_object())
    for (const auto& [key, value] : json.items())
      add_places(value, fmt::format("{}/{}", here, json_pointer_token(key)), places);
  if (json.is_array())
    for (std::size_t i = 0; i < json.size(); ++i) add_places(json[i], fmt::format("{}/{}", here, i), places);
}

std::vector<std::string> places(const Json& json) {
  std::vector<std::string> places;
  add_places(json, "", places);
  return places;
}

struct Mutant {
  std::string change;
  Json document;
};

std::vector<Mutant> mutants(const Json& good) {
  const std::vector<Json> values{
      nullptr, true, -1, 0, 1, 2, 0.5, largest_document_integer, "", "x", Json::array(), Json::object()};
  std::vector<Mutant> mutants;
  for (const std::string& place : places(good)) {
    const Json::json_pointer pointer(place);
    for (const Json& value : values) {
      Json document = good;
      document[pointer] = value;
      mutants.push_back({fmt::format("{} = {}", place, value.dump()), std::move(document)});
    }
    if (good[pointer].is_object())
      for (const char* key : {"comment", "unknown"}) {
        Json document = good;
        document[pointer][key] = "text";
        mutants.push_back({fmt::format("{}/{} added", place, key), std::move(document)});
      }
    if (pointer.empty()) continue;
    Json document = good;
    Json& parent = document[pointer.parent_pointer()];
    if (parent.is_object())
      parent.erase(pointer.back());
    else
      parent.erase(parent.begin() + std::stoi(pointer.back()));
    mutants.push_back({fmt::format("{} removed", place), std::move(document)});
  }
  return mutants;
}

}  // namespace

struct PublishedSchema::Compiled {
  valijson::Schema schema;
};

PublishedSchema::PublishedSchema(const std::string& name) : compiled_(std::make_unique<Compiled>()) {
  const PlainJson json = read_schema(name);
  const auto fetch = [](const std::string& uri) {
    return new PlainJson(read_schema(uri.substr(uri.rfind('/') + 1)));
  };
  valijson::SchemaParser().populateSchema(NlohmannJsonAdapter(json), compiled_->schema, fetch,
                                          [](const PlainJson* document) { delete document; });
}

PublishedSchema::~PublishedSchema() = default;

bool PublishedSchema::accepts(const Json& document) const {
  const PlainJson plain = PlainJson::parse(document.dump());
  return valijson::Validator().validate(compiled_->schema, NlohmannJsonAdapter(plain), nullptr);
}

bool says(const Error& error, std::initializer_list<const char*> phrases) {
  return std::any_of(phrases.begin(), phrases.end(),
                     [&](const char* phrase) { return error.message.find(phrase) != std::string::npos; });
}

Agreement compare(const PublishedSchema& schema, const Json& good, const Reading& read,
                  const BeyondSchema& beyond_schema) {
  Agreement agreement;
  REQUIRE(schema.accepts(good));
  REQUIRE_FALSE(read(good).has_value());
  for (const Mutant& mutant : mutants(good)) {
    const std::optional<Error> error = read(mutant.document);
    INFO(mutant.change << ": " << (error ? fmt::format("{} {}", error->where, error->message) : ""));
    const bool accepted = !error || beyond_schema(*error);
    CHECK(schema.accepts(mutant.document) == accepted);
    ++(error ? agreement.refused : agreement.accepted);
  }
  return agreement;
}

}  // namespace pipeplan::test
