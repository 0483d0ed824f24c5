#include "models/base/json_reader.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace pipeplan {
namespace {

const Json& empty_object() {
  static const Json object = Json::object();
  return object;
}

const Json& null_value() {
  static const Json null;
  return null;
}

}  // namespace

std::string shown(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return fmt::format("an array of {}", value.size());
  return shortened(value.dump(-1, ' ', false, Json::error_handler_t::replace), 40);
}

void JsonSource::fail(const std::string& path, std::string message, std::string hint) {
  if (!error_) error_ = Error{ErrorCode::bad_input, std::move(message), name_ + "#" + path, std::move(hint)};
}

ObjectReader::ObjectReader(JsonSource& source, const Json& value, std::string path)
    : source_(&source), value_(&value), path_(std::move(path)), asked_{"comment"} {
  if (value.is_object()) {
    const auto comment = value.find("comment");
    if (comment != value.end() && !comment->is_string())
      fail("comment", fmt::format("is {}, wanted a string", shown(*comment)));
    return;
  }
  source_->fail(path_, fmt::format("is {}, wanted an object", shown(value)));
  value_ = &empty_object();
}

std::string ObjectReader::below(const std::string& key) const {
  return path_ + "/" + json_pointer_token(key);
}

void ObjectReader::fail(const std::string& key, std::string message, std::string hint) {
  source_->fail(below(key), std::move(message), std::move(hint));
}

bool ObjectReader::has(const std::string& key) const {
  const auto found = value_->find(key);
  return found != value_->end() && !found->is_null();
}

const Json* ObjectReader::find(const std::string& key, bool required) {
  asked_.push_back(key);
  const auto found = value_->find(key);
  if (found != value_->end() && (required || !found->is_null())) return &*found;
  if (required) fail(key, "is missing");
  return nullptr;
}

std::optional<std::int64_t> ObjectReader::optional_integer(const std::string& key, std::int64_t least,
                                                           std::int64_t most) {
  if (has(key)) return integer(key, least, most);
  asked_.push_back(key);
  return std::nullopt;
}

std::int64_t ObjectReader::integer(const std::string& key, std::int64_t least, std::int64_t most) {
  const Json* value = find(key, true);
  if (value == nullptr) return least;
  if (!value->is_number_integer()) {
    fail(key, fmt::format("is {}, wanted an integer", shown(*value)));
    return least;
  }
  const auto number = value->get<std::int64_t>();
  if (number < least) fail(key, fmt::format("is {}, wanted at least {}", number, least));
  if (number > most) fail(key, fmt::format("is {}, wanted at most {}", number, most));
  return std::clamp(number, least, most);
}

double ObjectReader::number(const std::string& key, double least, double most) {
  const Json* value = find(key, true);
  if (value == nullptr) return least;
  if (!value->is_number()) {
    fail(key, fmt::format("is {}, wanted a number", shown(*value)));
    return least;
  }
  const auto number = value->get<double>();
  if (!(number >= least && number <= most))
    fail(key, fmt::format("is {}, wanted a number from {} to {}", number, least, most));
  return number;
}

std::optional<double> ObjectReader::optional_number(const std::string& key, double least, double most) {
  if (has(key)) return number(key, least, most);
  asked_.push_back(key);
  return std::nullopt;
}

bool ObjectReader::flag(const std::string& key, bool otherwise) {
  const Json* value = find(key, false);
  if (value == nullptr) return otherwise;
  if (value->is_boolean()) return value->get<bool>();
  fail(key, fmt::format("is {}, wanted true or false", shown(*value)));
  return otherwise;
}

std::string ObjectReader::text(const std::string& key) {
  const Json* value = find(key, true);
  if (value == nullptr) return {};
  if (!value->is_string()) {
    fail(key, fmt::format("is {}, wanted a string", shown(*value)));
    return {};
  }
  auto text = value->get<std::string>();
  if (text.empty()) fail(key, "is empty, wanted a string with at least one character");
  return text;
}

std::optional<std::string> ObjectReader::optional_text(const std::string& key) {
  if (has(key)) return text(key);
  asked_.push_back(key);
  return std::nullopt;
}

std::optional<Nanoseconds> ObjectReader::optional_time(const std::string& key) {
  const auto value = optional_integer(key);
  return value ? std::optional(Nanoseconds{*value}) : std::nullopt;
}

std::optional<Bytes> ObjectReader::optional_bytes(const std::string& key) {
  const auto value = optional_integer(key);
  return value ? std::optional(Bytes{*value}) : std::nullopt;
}

void ObjectReader::refuse_word(const std::string& key, const std::string& word,
                               const std::vector<std::string>& known) {
  const auto nearest = nearest_spelling(word, known);
  fail(key, fmt::format("is '{}', wanted one of {}", word, fmt::join(known, ", ")),
       nearest ? fmt::format("did you mean '{}'?", *nearest) : "");
}

ObjectReader ObjectReader::object(const std::string& key) {
  const Json* value = find(key, true);
  return {*source_, value == nullptr ? empty_object() : *value, below(key)};
}

std::vector<ObjectReader> ObjectReader::objects(const std::string& key) {
  std::vector<ObjectReader> readers;
  const Json* value = find(key, true);
  if (value == nullptr) return readers;
  if (!value->is_array()) {
    fail(key, fmt::format("is {}, wanted an array of objects", shown(*value)));
    return readers;
  }
  readers.reserve(value->size());
  for (std::size_t i = 0; i < value->size(); ++i)
    readers.emplace_back(*source_, (*value)[i], fmt::format("{}/{}", below(key), i));
  return readers;
}

std::vector<std::string> ObjectReader::texts(const std::string& key) {
  std::vector<std::string> items;
  const Json* value = find(key, true);
  if (value == nullptr) return items;
  if (!value->is_array()) fail(key, fmt::format("is {}, wanted an array of strings", shown(*value)));
  if (!value->is_array()) return items;
  for (std::size_t i = 0; i < value->size(); ++i) {
    const Json& item = (*value)[i];
    if (item.is_string())
      items.push_back(item.get<std::string>());
    else
      source_->fail(fmt::format("{}/{}", below(key), i), fmt::format("is {}, wanted a string", shown(item)));
  }
  return items;
}

std::vector<std::int64_t> ObjectReader::integers(const std::string& key, std::int64_t least) {
  std::vector<std::int64_t> items;
  const Json* value = find(key, true);
  if (value == nullptr) return items;
  if (!value->is_array()) fail(key, fmt::format("is {}, wanted an array of integers", shown(*value)));
  if (!value->is_array()) return items;
  for (std::size_t i = 0; i < value->size(); ++i) {
    const Json& item = (*value)[i];
    const std::string place = fmt::format("{}/{}", below(key), i);
    if (!item.is_number_integer())
      source_->fail(place, fmt::format("is {}, wanted an integer", shown(item)));
    else if (item.get<std::int64_t>() < least)
      source_->fail(place, fmt::format("is {}, wanted at least {}", shown(item), least));
    else
      items.push_back(item.get<std::int64_t>());
  }
  return items;
}

std::vector<std::string> ObjectReader::names(const std::string& key) {
  std::vector<std::string> items;
  const Json* value = find(key, true);
  if (value == nullptr) return items;
  if (!value->is_object()) fail(key, fmt::format("is {}, wanted an object", shown(*value)));
  if (value->is_object())
    for (const auto& entry : value->items()) items.push_back(entry.key());
  return items;
}

const Json& ObjectReader::raw(const std::string& key) {
  const Json* value = find(key, false);
  return value == nullptr ? null_value() : *value;
}

void ObjectReader::expect_schema(const std::string& schema) {
  const std::string seen = text("schema");
  if (seen != schema) fail("schema", fmt::format("is '{}', wanted '{}'", seen, schema));
}

void ObjectReader::done() {
  for (const auto& entry : value_->items()) {
    const std::string& key = entry.key();
    if (std::find(asked_.begin(), asked_.end(), key) != asked_.end()) continue;
    const auto nearest = nearest_spelling(key, asked_);
    fail(key, fmt::format("unknown key '{}'", key),
         nearest ? fmt::format("did you mean '{}'?", *nearest) : "");
    return;
  }
}

}  // namespace pipeplan
