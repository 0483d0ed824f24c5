#pragma once

// Reads the stages of a plan document: every layer once and in order, every rank with equally many stages,
// every device with one rank. What is wrong is noted in the document.

#include "models/base/json_reader.hpp"
#include "planner/plan.hpp"

namespace pipeplan {

// Fills plan.stages and plan.layer_names; cluster and micro-batches of `plan` must have been read.
void read_stages(ObjectReader& document, std::int64_t virtual_stages, Plan& plan);

// A field of the document that this version knows in one value only.
void expect_one(ObjectReader& object, const std::string& key);

}  // namespace pipeplan
