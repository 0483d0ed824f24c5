#include "tools/cli/table.hpp"

#include <algorithm>

#include "models/base/assert.hpp"

namespace pipeplan {
namespace {

std::string padded(const std::string& text, std::size_t width, Table::Align align) {
  const std::string space(width - display_width(text), ' ');
  return align == Table::Align::right ? space + text : text + space;
}

}  // namespace

std::size_t display_width(const std::string& text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

void Table::add(std::vector<std::string> cells) {
  PIPEPLAN_ASSERT(cells.size() == columns_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::text() const {
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    widths.push_back(display_width(columns_[c].title));
    for (const auto& row : rows_) widths[c] = std::max(widths[c], display_width(row[c]));
  }
  std::string text;
  const auto line = [&](const auto& cell_of) {
    std::string row;
    for (std::size_t c = 0; c < columns_.size(); ++c)
      row += (c == 0 ? "" : "  ") + padded(cell_of(c), widths[c], columns_[c].align);
    row.erase(row.find_last_not_of(' ') + 1);
    text += row + "\n";
  };
  line([&](std::size_t c) { return columns_[c].title; });
  line([&](std::size_t c) { return std::string(widths[c], '-'); });
  for (const auto& row : rows_) line([&](std::size_t c) { return row[c]; });
  return text;
}

}  // namespace pipeplan
