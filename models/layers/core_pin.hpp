#pragma once

// Which cores this process may use, and keeping a thread on one of them: a stage or a profiler that wanders
// between cores measures its own cold caches.

#include <vector>

namespace pipeplan {

// The cores in the calling thread's affinity mask, ascending.
std::vector<int> usable_cores();

// Keeps the calling thread on `core`; false where the system does not allow it.
bool pin_to_core(int core);

// Puts the calling thread's affinity mask back when it goes out of scope.
class AffinityScope {
 public:
  AffinityScope() : cores_(usable_cores()) {}
  ~AffinityScope();
  AffinityScope(const AffinityScope&) = delete;
  AffinityScope& operator=(const AffinityScope&) = delete;

 private:
  std::vector<int> cores_;
};

}  // namespace pipeplan
