#include "models/base/json_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "models/base/units.hpp"

namespace pipeplan {
namespace {

constexpr std::size_t longest_reason = 160;

std::string line_and_column(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t line_start = before.rfind('\n');
  const std::size_t column = before.size() - (line_start == std::string_view::npos ? 0 : line_start + 1) + 1;
  return fmt::format("{}:{}", line, column);
}

// Builds the DOM event by event, and stops at the first thing that a document may not hold.
class StrictBuilder : public nlohmann::json_sax<Json> {
 public:
  StrictBuilder(std::string_view text, std::string source) : text_(text), source_(std::move(source)) {}

  bool null() override { return place(nullptr); }
  bool boolean(bool value) override { return place(value); }
  bool number_integer(number_integer_t value) override {
    if (value < -largest_document_integer) return refuse_number(fmt::format("{}", value));
    return place(value);
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<std::uint64_t>(largest_document_integer))
      return refuse_number(fmt::format("{}", value));
    return place(static_cast<std::int64_t>(value));
  }
  bool number_float(number_float_t value, const string_t& spelling) override {
    const bool integer_spelling = spelling.find_first_of(".eE") == std::string::npos;
    if (integer_spelling || !std::isfinite(value)) return refuse_number(spelling);
    return place(value);
  }
  bool string(string_t& value) override { return place(std::move(value)); }
  bool binary(binary_t&) override { return refuse("a binary value, wanted JSON"); }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    Level& level = open_.back();
    level.key = name;
    return level.keys.insert(name).second || refuse(fmt::format("key '{}' appears twice", name));
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& cause) override {
    std::string why = cause.what();
    const std::size_t detail = why.find(": ", why.find("column"));
    if (detail != std::string::npos) why = why.substr(detail + 2);
    why = shortened(why, longest_reason);  // it quotes the token it stopped in, however long
    const std::size_t offset = position == 0 ? 0 : position - 1;
    const bool out_of_range = cause.id == 406;
    error_ = Error{ErrorCode::bad_input,
                   out_of_range ? fmt::format("a number is too large for any computation: {}", why)
                                : fmt::format("not valid JSON: {}", why),
                   fmt::format("{}:{}", source_, line_and_column(text_, offset)),
                   {}};
    return false;
  }

  Json root;
  [[nodiscard]] const Error& error() const { return error_; }

 private:
  struct Level {
    Json* value;
    std::string key;
    std::set<std::string> keys;
    std::size_t count = 0;
  };

  std::string path() const {
    std::string text = source_ + "#";
    for (const Level& level : open_)
      text.append("/").append(level.value->is_object() ? json_pointer_token(level.key)
                                                       : fmt::format("{}", level.count));
    return text;
  }

  bool refuse(std::string message) {
    error_ = Error{ErrorCode::bad_input, std::move(message), path(), {}};
    return false;
  }

  bool refuse_number(const std::string& spelling) {
    return refuse(fmt::format("number {} is out of range, wanted a magnitude of at most 2^53-1",
                              shortened(spelling, 40)));
  }

  Json* insert(Json value) {
    if (open_.empty()) {
      root = std::move(value);
      return &root;
    }
    Level& level = open_.back();
    if (level.value->is_object()) {
      auto& entries = level.value->get_ref<Json::object_t&>();
      entries.push_back({level.key, std::move(value)});
      return &entries.back().second;
    }
    level.value->push_back(std::move(value));
    return &level.value->back();
  }

  void advance() {
    if (!open_.empty()) ++open_.back().count;
  }

  template<class Value>
  bool place(Value&& value) {
    insert(Json(std::forward<Value>(value)));
    advance();
    return true;
  }

  bool open(Json container) {
    if (open_.size() >= static_cast<std::size_t>(largest_document_depth))
      return refuse(fmt::format("nested deeper than {} levels", largest_document_depth));
    Json* placed = insert(std::move(container));
    open_.push_back({placed, {}, {}});
    return true;
  }

  bool close() {
    open_.pop_back();
    advance();
    return true;
  }

  std::string_view text_;
  std::string source_;
  std::vector<Level> open_;
  Error error_;
};

std::string system_reason() { return std::strerror(errno); }

bool is_special_file(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

Result<void> write_directly(const std::string& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file << text << std::flush;
  if (!file) return fail(ErrorCode::unavailable, path, "cannot be written");
  return {};
}

// What open() would give a new file: mkstemp is stricter.
mode_t mode_of_new_files() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return 0666 & ~mask;
}

bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

std::string json_pointer_token(std::string_view key) {
  std::string token;
  for (const char c : key) {
    if (c == '~')
      token += "~0";
    else if (c == '/')
      token += "~1";
    else
      token += c;
  }
  return token;
}

std::string shortened(std::string_view text, std::size_t most) {
  // Back to the start of a character that the cut would split.
  std::size_t end = std::min(most, text.size());
  while (end > 0 && end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  const std::string quoted = Json(text.substr(0, end)).dump(-1, ' ', false, Json::error_handler_t::replace);
  return Json::parse(quoted).get<std::string>() + (end < text.size() ? "…" : "");
}

std::string source_name(const std::string& path) { return path == "-" ? "stdin" : path; }

Result<std::string> read_text_file(const std::string& path) {
  if (path == "-") return std::string(std::istreambuf_iterator<char>(std::cin), {});
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0)
    return fail(ErrorCode::unavailable, path, fmt::format("cannot be read: {}", system_reason()));
  if (S_ISDIR(status.st_mode)) return fail(ErrorCode::unavailable, path, "is a folder, wanted a file");
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail(ErrorCode::unavailable, path, fmt::format("cannot be read: {}", system_reason()));
  return std::string(std::istreambuf_iterator<char>(file), {});
}

Result<Json> parse_json(std::string_view text, const std::string& source) {
  StrictBuilder builder(text, source);
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos)
    return bad_input(source, "is empty, wanted a JSON document");
  if (!Json::sax_parse(text.begin(), text.end(), &builder)) return Failure(builder.error());
  return std::move(builder.root);
}

Result<Json> read_json_file(const std::string& path) {
  PIPEPLAN_TRY(text, read_text_file(path));
  return parse_json(text, source_name(path));
}

Result<void> write_text_file(const std::string& path, std::string_view text) {
  if (path == "-") {
    std::cout << text << std::flush;
    if (!std::cout) return fail(ErrorCode::unavailable, "stdout", "cannot be written");
    return {};
  }
  if (is_special_file(path)) return write_directly(path, text);
  std::string temporary = path + ".XXXXXX";
  const int descriptor = ::mkstemp(temporary.data());
  if (descriptor < 0)
    return fail(ErrorCode::unavailable, path, fmt::format("cannot be written: {}", system_reason()));
  ::fchmod(descriptor, mode_of_new_files());
  const bool written = write_all(descriptor, text) && ::fsync(descriptor) == 0;
  const std::string reason = system_reason();
  const bool closed = ::close(descriptor) == 0;
  if (written && closed && ::rename(temporary.c_str(), path.c_str()) == 0) return {};
  const std::string why = written ? system_reason() : reason;
  ::unlink(temporary.c_str());
  return fail(ErrorCode::unavailable, path, fmt::format("cannot be written: {}", why));
}

std::string document_text(const Json& json) { return json.dump(2) + "\n"; }

}  // namespace pipeplan
