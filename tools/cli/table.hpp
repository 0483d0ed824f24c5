#pragma once

// A text table: columns as wide as their widest cell, numbers to the right, a rule under the header.

#include <string>
#include <vector>

namespace pipeplan {

class Table {
 public:
  enum class Align { left, right };
  struct Column {
    std::string title;
    Align align = Align::right;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  // One cell per column.
  void add(std::vector<std::string> cells);
  [[nodiscard]] std::string text() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// Columns on screen that UTF-8 text takes (one per code point).
std::size_t display_width(const std::string& text);

}  // namespace pipeplan
