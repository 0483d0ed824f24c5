#pragma once

// Sleeping to a point of the steady clock as closely as the system lets a thread.

#include "models/base/units.hpp"

namespace pipeplan {

// Whether a wait that will be short keeps its core busy: closer, but it takes the core from others.
enum class Waiting { spins, sleeps };

Nanoseconds steady_now();

// Wakes the calling thread as soon as its time has come, not with others up to 50 us later.
void sharpen_timers();

// Returns at once where `time` has passed. The last 50 us are spun through if `waiting` says so.
void sleep_until(Nanoseconds time, Waiting waiting);

}  // namespace pipeplan
