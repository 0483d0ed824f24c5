#pragma once

// Measures how fast tensors get from one part of a machine's GPUs to another, and how much the parts slow
// each other down. What comes out can be planned for: a cluster document of these very parts.

#include <string>
#include <vector>

#include "models/cluster.hpp"
#include "profiler/gpu/gpu_backend.hpp"
#include "profiler/gpu/interference.hpp"

namespace pipeplan {

// One way, of `bytes`: the median of several.
struct TransferSample {
  Bytes bytes;
  Nanoseconds time{};
};

// The straight line latency + bytes / bandwidth through the samples (at least two sizes, times above 0) whose
// relative errors have the least sum of squares; latency at least 0. Times that do not grow with the size
// give an infinite bandwidth.
Link fit_link(std::span<const TransferSample> samples);
// The largest relative error of `link` against the samples.
double misfit_fraction(const Link& link, std::span<const TransferSample> samples);

struct ProbedLink {
  std::size_t from = 0, to = 0;  // parts; both directions in turn
  std::vector<TransferSample> samples;
  Link link;
};

struct LinkProbe {
  std::vector<GpuPart> parts;
  std::vector<GpuDevice> devices;            // of each part
  std::vector<ProbedLink> links;             // of each pair of parts
  std::optional<Interference> interference;  // of two parts and more
};

struct ProbeOptions {
  std::int64_t count = 2;
  // So many SMs of one GPU each (green contexts of `gpu`); absent: whole GPUs from `gpu` on.
  std::optional<std::int64_t> partition_sms = {};
  std::int64_t gpu = 0;
  std::vector<Bytes> sizes = {Bytes{4 << 10}, Bytes{64 << 10}, Bytes{1 << 20}, Bytes{16 << 20},
                              Bytes{64 << 20}};
  std::int64_t micro_batch_size = 1;  // at which the interference is measured
};

// Nothing else may run on the GPUs. Refused: more whole GPUs than there are, partitions that do not fit.
Result<LinkProbe> probe_links(const ModelGraph& model, const ProbeOptions& options, GpuBackend& backend);

// One node of the parts, each with its share of the GPU's memory. Speeds are those of a part alone: the
// interference is not in it.
Cluster probed_cluster(const LinkProbe& probe);
std::string probe_text(const LinkProbe& probe);

}  // namespace pipeplan
