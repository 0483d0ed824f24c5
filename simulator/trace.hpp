#pragma once

// Chrome trace events (Trace Event Format, Google): opens in Perfetto and chrome://tracing. A process per
// rank with tracks for compute, send and receive, counters for memory and micro-batches in flight, and arrows
// for transfers.

#include "simulator/timeline.hpp"

namespace pipeplan {

Json trace_events(const Timeline& timeline, const std::string& title);

}  // namespace pipeplan
