#include "tools/cli/terminal.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace pipeplan {
namespace {

constexpr std::size_t width_without_terminal = 100;

bool colour_is_forbidden() {
  const char* value = std::getenv("NO_COLOR");
  return value != nullptr && *value != '\0';
}

}  // namespace

Terminal::Terminal()
    : stdout_is_terminal_(::isatty(STDOUT_FILENO) == 1), stderr_is_terminal_(::isatty(STDERR_FILENO) == 1) {
  set_color(ColorMode::automatic);
}

void Terminal::set_color(ColorMode mode) {
  const bool wanted = mode == ColorMode::always || (mode == ColorMode::automatic && !colour_is_forbidden());
  const bool always = mode == ColorMode::always;
  color_stdout_ = wanted && (always || stdout_is_terminal_);
  color_stderr_ = wanted && (always || stderr_is_terminal_);
}

std::size_t Terminal::width() const {
  winsize size{};
  if (!stdout_is_terminal_ || ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
    return width_without_terminal;
  return size.ws_col;
}

void Terminal::print(std::string_view text) const {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void Terminal::labelled(std::string_view label, std::string_view color, std::string_view text) const {
  if (color_stderr_)
    fmt::print(stderr, "\x1b[{}m{}:\x1b[0m {}\n", color, label, text);
  else
    fmt::print(stderr, "{}: {}\n", label, text);
}

void Terminal::error(const Error& error) const {
  labelled("error", "1;31", error.where.empty() ? error.message : error.where + ": " + error.message);
  if (!error.hint.empty()) labelled("hint", "1;36", error.hint);
}

void Terminal::warning(const Warning& warning) const {
  labelled("warning", "1;33", fmt::format("{} [{}]", warning.message, spelt(warning.code)));
  if (!warning.hint.empty()) labelled("hint", "1;36", warning.hint);
}

void Terminal::note(std::string_view text) const { labelled("note", "1", text); }

void Terminal::progress(std::string_view what, std::int64_t done, std::int64_t total) {
  if (!stderr_is_terminal_) return;
  const auto now = Clock::now();
  if (progress_start_ == Clock::time_point{}) progress_start_ = progress_last_ = now;
  const std::chrono::duration<double> spent = now - progress_start_;
  if (spent.count() < 0.5 || now - progress_last_ < std::chrono::milliseconds(100)) return;
  progress_last_ = now;
  progress_shown_ = true;
  const double rate = static_cast<double>(done) / spent.count();
  const double left = rate > 0 ? static_cast<double>(total - done) / rate : 0;
  fmt::print(stderr, "\r\x1b[K{}: {}/{}, {:.1f}/s, {:.0f} s left", what, done, total, rate, left);
  std::fflush(stderr);
}

void Terminal::finish_progress() {
  if (progress_shown_) fmt::print(stderr, "\r\x1b[K");
  progress_shown_ = false;
  progress_start_ = {};
}

}  // namespace pipeplan
