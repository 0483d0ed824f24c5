#pragma once

// Strict JSON in, whole files out. Reading goes through nlohmann's SAX interface and refuses what its DOM
// accepts in silence: duplicate keys, integers beyond 2^53-1, numbers that overflow, nesting beyond 64.
// Objects keep their key order. "-" names stdin or stdout.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "models/base/result.hpp"

namespace pipeplan {

using Json = nlohmann::ordered_json;

inline constexpr int largest_document_depth = 64;

// The whole file (or stdin for "-") as text. Missing, unreadable, a folder: an error that names it.
Result<std::string> read_text_file(const std::string& path);

// The JSON value in `text`; errors carry "source:line:column" or "source#/path".
Result<Json> parse_json(std::string_view text, const std::string& source);

Result<Json> read_json_file(const std::string& path);

// Writes the file whole or not at all: a temporary file beside it, synced, then renamed. "-" writes stdout.
// Devices and pipes (/dev/stdout, a fifo) are written directly.
Result<void> write_text_file(const std::string& path, std::string_view text);

// `json` as a document: indented by two, a newline at the end; small arrays of numbers stay readable.
std::string document_text(const Json& json);

// `key` as one token of a JSON pointer (RFC 6901): "~" becomes "~0", "/" becomes "~1".
std::string json_pointer_token(std::string_view key);

// `text` fit for a message: at most `most` bytes and "…" where it goes on, never half a character, and what
// is not UTF-8 replaced.
std::string shortened(std::string_view text, std::size_t most);

// How `path` is called in messages: "stdin" for "-".
std::string source_name(const std::string& path);

}  // namespace pipeplan
