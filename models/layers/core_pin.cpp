#include "models/layers/core_pin.hpp"

#include <pthread.h>
#include <sched.h>

namespace pipeplan {
namespace {

bool set_cores(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(static_cast<std::size_t>(core), &set);
  return ::pthread_setaffinity_np(::pthread_self(), sizeof set, &set) == 0;
}

}  // namespace

std::vector<int> usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (::pthread_getaffinity_np(::pthread_self(), sizeof set, &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(static_cast<std::size_t>(core), &set)) cores.push_back(core);
  return cores;
}

bool pin_to_core(int core) { return set_cores({core}); }

AffinityScope::~AffinityScope() { set_cores(cores_); }

}  // namespace pipeplan
