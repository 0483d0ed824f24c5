#pragma once

// Green contexts: disjoint sets of a GPU's SMs, in one process and one address space. All SMs are split into
// the smallest groups the driver makes, and each context takes some of them.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "models/layers/cuda/driver_functions.hpp"
#include "models/layers/cuda/handles.hpp"

namespace pipeplan {

struct GreenPart {
  GreenContext context;
  std::int64_t sm_count = 0;  // as the driver says afterwards, not as was asked
};

// One context per request, see split_groups. The device's primary context must be active.
Result<std::vector<GreenPart>> make_green_parts(const DriverFunctions& driver, int device,
                                                std::span<const std::optional<std::int64_t>> sm_counts);

// A stream whose kernels run on the context's SMs, whichever context is current.
Result<CudaStream> make_green_stream(const DriverFunctions& driver, const GreenPart& part,
                                     const std::string& where);

// SMs of the smallest green context; 0 where the driver has none.
std::int64_t smallest_green_part(int device);

}  // namespace pipeplan
