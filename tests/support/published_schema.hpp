#pragma once

// A published JSON Schema against the reader of its documents: on thousands of documents with one fault each,
// both say the same, except for what a schema cannot say.

#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>

#include "models/base/json_file.hpp"

namespace pipeplan::test {

class PublishedSchema {
 public:
  // `name` of a file in models/schema.
  explicit PublishedSchema(const std::string& name);
  ~PublishedSchema();
  [[nodiscard]] bool accepts(const Json& document) const;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

// What the reader of the document says: nothing, or its error.
using Reading = std::function<std::optional<Error>(const Json& document)>;
template<class T>
std::optional<Error> error_of(const Result<T>& read) {
  return read ? std::nullopt : std::optional(read.error());
}

// An error about how values relate to each other, which a schema cannot state.
using BeyondSchema = std::function<bool(const Error&)>;
bool says(const Error& error, std::initializer_list<const char*> phrases);

struct Agreement {
  std::size_t accepted = 0, refused = 0;
};

// Checks that schema and reader agree on `good`, and on each of its mutants: each place of the document once
// with each of a dozen values, once left out, and each object once with a key of no meaning.
Agreement compare(const PublishedSchema& schema, const Json& good, const Reading& read,
                  const BeyondSchema& beyond_schema);

}  // namespace pipeplan::test
