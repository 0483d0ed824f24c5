#pragma once

// A timeline as text, for a terminal: one row per rank, time across, a character per slice of time.

#include <string>

#include "simulator/timeline.hpp"

namespace pipeplan {

// Lines of at most `width` columns (but at least one slice of time wide), a time axis and a legend beneath.
// Forwards are digits, backwards letters, by the last digit of their micro-batch; idle is '.'. A slice shows
// what fills most of it. Where the ops allow it every slice takes the same part of them, so that equal ops
// look equal. Colours (ANSI) where asked.
std::string text_chart(const Timeline& timeline, std::size_t width, bool colour);

}  // namespace pipeplan
