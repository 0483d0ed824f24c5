#include "models/import/text_lines.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace pipeplan {
namespace {

bool is_utf8(std::string_view text) {
  try {
    (void)nlohmann::json(text).dump();  // strict: throws on what JSON could not hold
    return true;
  } catch (const nlohmann::json::type_error&) {
    return false;
  }
}

}  // namespace

std::string line_place(const std::string& source, std::size_t number) {
  return fmt::format("{}:{}", source, number);
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") + 1 - first);
}

Result<std::vector<TextLine>> text_lines(std::string_view text, const std::string& source) {
  constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  std::vector<TextLine> lines;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!is_utf8(line)) return bad_input(line_place(source, number), "holds bytes that are not UTF-8");
    if (!trimmed(line).empty()) lines.push_back({number, line});
  }
  return lines;
}

}  // namespace pipeplan
