#pragma once

// Reads a document field by field and keeps the first thing that is wrong, with its place: the readers of
// documents stay lists of fields, and every error names file, path, value seen and value wanted. Unknown keys
// are refused by done(); "comment" is allowed wherever an object stands. A null optional field counts as
// absent.

#include <cstdint>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "models/base/json_file.hpp"
#include "models/base/spelling.hpp"
#include "models/base/units.hpp"

namespace pipeplan {

// Where the fields of one document come from, and the first error found in it.
class JsonSource {
 public:
  explicit JsonSource(std::string name) : name_(std::move(name)) {}

  void fail(const std::string& path, std::string message, std::string hint = {});
  [[nodiscard]] bool failed() const { return error_.has_value(); }
  // The value, or the first error that was found.
  template<class T>
  Result<T> result(T value) const {
    if (error_) return Failure(*error_);
    return value;
  }

 private:
  std::string name_;
  std::optional<Error> error_;
};

class ObjectReader {
 public:
  ObjectReader(JsonSource& source, const Json& value, std::string path);

  // True if the key is there and not null.
  [[nodiscard]] bool has(const std::string& key) const;

  std::int64_t integer(const std::string& key, std::int64_t least = 0,
                       std::int64_t most = largest_document_integer);
  std::optional<std::int64_t> optional_integer(const std::string& key, std::int64_t least = 0,
                                               std::int64_t most = largest_document_integer);
  double number(const std::string& key, double least, double most);
  std::optional<double> optional_number(const std::string& key, double least, double most);
  bool flag(const std::string& key, bool otherwise);
  std::string text(const std::string& key);  // never empty
  std::optional<std::string> optional_text(const std::string& key);
  Nanoseconds time(const std::string& key) { return Nanoseconds{integer(key)}; }
  Bytes bytes(const std::string& key) { return Bytes{integer(key)}; }
  std::optional<Nanoseconds> optional_time(const std::string& key);
  std::optional<Bytes> optional_bytes(const std::string& key);

  template<class Enum>
  Enum one_of(const std::string& key) {
    const std::string word = text(key);
    if (const auto value = from_spelling<Enum>(word)) return *value;
    refuse_word(key, word, all_spellings<Enum>());
    return Enum{};
  }

  ObjectReader object(const std::string& key);
  // The array's objects, at most `most` of them; a missing key is an error.
  std::vector<ObjectReader> objects(const std::string& key);
  std::vector<std::string> texts(const std::string& key);
  std::vector<std::int64_t> integers(const std::string& key, std::int64_t least = 0);
  // The keys of an object that maps names to objects, in their order.
  std::vector<std::string> names(const std::string& key);

  // The raw value behind a key (for parts that have readers of their own); null if absent.
  const Json& raw(const std::string& key);

  // Refuses "schema" if it is not `schema`.
  void expect_schema(const std::string& schema);
  // Refuses the keys that no call above has asked for.
  void done();

  void fail(const std::string& key, std::string message, std::string hint = {});
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] JsonSource& source() const { return *source_; }

 private:
  const Json* find(const std::string& key, bool required);
  void refuse_word(const std::string& key, const std::string& word, const std::vector<std::string>& known);
  std::string below(const std::string& key) const;

  JsonSource* source_;
  const Json* value_;
  std::string path_;
  std::vector<std::string> asked_;
};

// What a value looks like in an error: scalars as they are (cut at 40 characters), containers by their kind
// only.
std::string shown(const Json& value);

}  // namespace pipeplan
