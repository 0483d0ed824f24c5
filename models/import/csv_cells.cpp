#include "models/import/csv_cells.hpp"

#include <fmt/format.h>

#include "models/import/text_lines.hpp"

namespace pipeplan {
namespace {

void skip_blanks(std::string_view& rest) {
  rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
}

// Takes a cell in quotes off the front of `rest`; says what is wrong with it, or nothing.
std::string_view take_quoted(std::string_view& rest, std::string& cell) {
  rest.remove_prefix(1);
  while (true) {
    const std::size_t quote = rest.find('"');
    if (quote == std::string_view::npos) return "has no closing quote on its line";
    cell += rest.substr(0, quote);
    rest.remove_prefix(quote + 1);
    if (!rest.starts_with('"')) break;
    cell += '"';
    rest.remove_prefix(1);
  }
  skip_blanks(rest);
  return rest.empty() || rest.starts_with(',') ? "" : "goes on after its closing quote";
}

std::string_view take_plain(std::string_view& rest, std::string& cell) {
  const std::string_view plain = rest.substr(0, rest.find(','));
  cell = trimmed(plain);
  rest.remove_prefix(plain.size());
  return plain.find('"') == std::string_view::npos
             ? ""
             : "has a quote in its middle, wanted the whole cell in quotes";
}

}  // namespace

Result<std::vector<std::string>> csv_cells(std::string_view line, const std::string& place) {
  std::vector<std::string> cells;
  std::string_view rest = line;
  while (true) {
    std::string cell;
    skip_blanks(rest);
    const std::string_view wrong = rest.starts_with('"') ? take_quoted(rest, cell) : take_plain(rest, cell);
    if (!wrong.empty()) return bad_input(place, fmt::format("cell {} {}", cells.size() + 1, wrong));
    cells.push_back(std::move(cell));
    if (rest.empty()) return cells;
    rest.remove_prefix(1);
  }
}

}  // namespace pipeplan
