#pragma once

// Where words, colours and terminals are known: results go to stdout, everything else (warnings, errors,
// notes, progress) to stderr.

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "models/base/result.hpp"
#include "models/base/spelling.hpp"
#include "models/base/warning.hpp"

namespace pipeplan {

enum class ColorMode { automatic, always, never };

constexpr auto spellings(ColorMode) {
  return std::to_array<Spelling<ColorMode>>(
      {{ColorMode::automatic, "auto"}, {ColorMode::always, "always"}, {ColorMode::never, "never"}});
}

class Terminal {
 public:
  Terminal();

  // NO_COLOR in the environment wins over auto, a flag over both.
  void set_color(ColorMode mode);
  [[nodiscard]] bool color_on_stdout() const { return color_stdout_; }
  // Columns of the terminal on stdout; 100 where it is none.
  [[nodiscard]] std::size_t width() const;

  void print(std::string_view text) const;  // stdout
  void error(const Error& error) const;     // "error: <where>: <what>", then "hint: …"
  void warning(const Warning& warning) const;
  void note(std::string_view text) const;

  // A line on stderr with done/total, rate and time left, only if stderr is a terminal and the work lasts
  // over half a second. finish_progress wipes it.
  void progress(std::string_view what, std::int64_t done, std::int64_t total);
  void finish_progress();

 private:
  using Clock = std::chrono::steady_clock;
  void labelled(std::string_view label, std::string_view color, std::string_view text) const;

  bool stdout_is_terminal_, stderr_is_terminal_;
  bool color_stdout_ = false, color_stderr_ = false;
  bool progress_shown_ = false;
  Clock::time_point progress_start_{};
  Clock::time_point progress_last_{};
};

}  // namespace pipeplan
