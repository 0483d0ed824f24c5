#pragma once

// The lines of a text file that somebody else wrote, with their numbers for errors: a byte-order mark and
// carriage returns are taken off, blank lines left out, and what is not UTF-8 is refused, so that names can
// go into documents.

#include <string>
#include <string_view>
#include <vector>

#include "models/base/result.hpp"

namespace pipeplan {

struct TextLine {
  std::size_t number;     // from 1
  std::string_view text;  // without its end; views into the file's text
};

Result<std::vector<TextLine>> text_lines(std::string_view text, const std::string& source);

// "graph.txt:12", as errors name a line.
std::string line_place(const std::string& source, std::size_t number);

// `text` without spaces and tabs at both ends.
std::string_view trimmed(std::string_view text);

}  // namespace pipeplan
