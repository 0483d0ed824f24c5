#pragma once

// What the devices of a stage and the links between them come to. Replicas and copies take their steps
// together, so the slowest device and the slowest link set the pace, and the device with the least room the
// limit.

#include <vector>

#include "models/cluster.hpp"
#include "planner/plan.hpp"

namespace pipeplan {

// One device that stands for all of them: the lowest speed, and the memory of the one with the least room
// beside what is reserved.
DeviceType common_device(const Cluster& cluster, const std::vector<DeviceId>& devices);

// One link that stands for all between two stages: the lowest bandwidth and the longest latency of those
// between replicas that share samples, in any copy of the pipeline. Free between stages of one rank.
Link boundary_link(const Cluster& cluster, const StagePlan& from, const StagePlan& to);

// The same for the ring in which the devices of a stage sum their gradients, each with the next.
Link ring_link(const Cluster& cluster, const std::vector<DeviceId>& devices);

// A ring all-reduce of `bytes` among n devices takes 2(n-1)/n * bytes / bandwidth + 2(n-1) * latency
// (Patarasuk and Yuan 2009), rounded up to whole ns and cut to largest_total_time; 0 for one device.
Nanoseconds all_reduce_time(const Link& link, std::int64_t device_count, Bytes bytes);

}  // namespace pipeplan
