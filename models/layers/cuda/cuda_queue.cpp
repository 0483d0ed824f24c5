#include "models/layers/cuda/cuda_queue.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/layers/cuda/idle.hpp"
#include "models/layers/cuda/kernels.hpp"
#include "models/layers/cuda/layers.hpp"
#include "models/layers/cuda/mark_sms.hpp"

namespace pipeplan {
namespace {

struct CudaEvent : GpuEvent {
  CudaEventOwner event;
};

cudaEvent_t raw(const GpuEvent& event) { return static_cast<const CudaEvent&>(event).event.get(); }

std::size_t byte_count(std::int64_t count) { return static_cast<std::size_t>(count) * sizeof(float); }

std::string located(const std::string& name, const CudaPart& part) {
  return fmt::format("{}, GPU {}", name, part.device());
}

// An arena may outlive its queue: the pool stays until its last block is freed.
void release_on(int device, std::byte* region) {
  (void)cudaSetDevice(device);
  (void)cudaFree(region);
}

}  // namespace

CudaQueue::CudaQueue(const std::string& name, std::shared_ptr<CudaPart> part)
    : name_(name),
      part_(std::move(part)),
      work_(name, part_->device(), static_cast<int>(part_->granted.sm_count)) {}

Result<std::unique_ptr<GpuQueue>> CudaQueue::make(const std::string& name, std::shared_ptr<CudaPart> part,
                                                  std::size_t workspace_bytes) {
  const std::string where = located(name, *part);
  std::unique_ptr<CudaQueue> queue(new CudaQueue(name, std::move(part)));
  PIPEPLAN_TRY(stream, queue->part_->make_stream(where));
  queue->stream_ = std::move(stream);
  if (workspace_bytes > 0) {
    void* workspace = nullptr;
    PIPEPLAN_CHECK(check_cuda(cudaMalloc(&workspace, workspace_bytes), "cudaMalloc of the workspace", where));
    queue->workspace_.reset(workspace);
  }
  queue->work_.stream = queue->stream_.get();
  queue->work_.blas = queue->part_->blas.get();
  queue->work_.workspace = queue->workspace_.get();
  queue->work_.workspace_bytes = workspace_bytes;
  return queue;
}

Result<std::unique_ptr<GpuQueue>> CudaQueue::make_sibling(const std::string& name) {
  return make(name, part_, 0);
}

Result<std::unique_ptr<RunnableLayer<float>>> CudaQueue::make_layer(const LayerSpec& spec,
                                                                    const std::string& where) {
  PIPEPLAN_CHECK(check_cuda(part_->select(), "cudaSetDevice", located(name_, *part_)));
  return make_cuda_layer(spec, where, work_);
}

Result<Arena> CudaQueue::reserve(Bytes capacity, const std::string& where) {
  PIPEPLAN_CHECK(check_cuda(part_->select(), "cudaSetDevice", located(name_, *part_)));
  const auto bytes = static_cast<std::size_t>(std::max(arena_bytes(capacity).value, buffer_alignment));
  void* region = nullptr;
  const cudaError_t status = cudaMallocFromPoolAsync(&region, bytes, part_->pool.get(), stream_.get());
  if (status != cudaSuccess) return too_little_memory(capacity, status, where);
  const int device = part_->device();
  Arena arena(static_cast<std::byte*>(region), capacity,
              [device](std::byte* block) { release_on(device, block); });
  PIPEPLAN_CHECK(check_cuda(cudaMemsetAsync(region, 0, bytes, stream_.get()), "cudaMemsetAsync", where));
  PIPEPLAN_CHECK(check_cuda(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize", where));
  return arena;
}

Failure CudaQueue::too_little_memory(Bytes capacity, cudaError_t status, const std::string& where) const {
  (void)cudaGetLastError();
  std::size_t free = 0, all = 0;
  const bool known = cudaMemGetInfo(&free, &all) == cudaSuccess;
  const std::string there =
      known ? fmt::format("{} of {} free", display(Bytes{static_cast<std::int64_t>(free)}),
                          display(Bytes{static_cast<std::int64_t>(all)}))
            : "an unknown amount free";
  return fail(ErrorCode::unavailable, where,
              fmt::format("needs {} on GPU {}, which has {}: {}", display(capacity), part_->device(), there,
                          cudaGetErrorString(status)));
}

bool CudaQueue::ready(std::int64_t count) {
  return count > 0 && work_.good() && work_.check(part_->select(), "cudaSetDevice");
}

void CudaQueue::zero(float* place, std::int64_t count) {
  if (!ready(count)) return;
  work_.check(cudaMemsetAsync(place, 0, byte_count(count), work_.stream), "cudaMemsetAsync");
}

void CudaQueue::fill(float* place, std::int64_t count, float value) {
  if (!ready(count)) return;
  launch_fill(work_.stream, count, value, place);
  work_.check_launch("fill");
}

void CudaQueue::copy(const float* from, float* to, std::int64_t count) {
  if (!ready(count)) return;
  work_.check(cudaMemcpyAsync(to, from, byte_count(count), cudaMemcpyDeviceToDevice, work_.stream),
              "cudaMemcpyAsync on the device");
}

void CudaQueue::add(const float* from, float* to, std::int64_t count) {
  if (!ready(count)) return;
  launch_add(work_.stream, count, from, to);
  work_.check_launch("add");
}

void CudaQueue::upload(std::span<const float> from, float* to) {
  if (ready(std::ssize(from))) staging_.upload(work_, from.data(), to, from.size_bytes());
}

void CudaQueue::download(const float* from, std::span<float> to) {
  if (!ready(std::ssize(to))) return;
  if (work_.check(cudaMemcpyAsync(to.data(), from, to.size_bytes(), cudaMemcpyDeviceToHost, work_.stream),
                  "cudaMemcpyAsync to the host"))
    work_.check(cudaStreamSynchronize(work_.stream), "cudaStreamSynchronize");
}

void CudaQueue::step(const Optimizer& optimizer, std::int64_t number, std::int64_t count, float* parameters,
                     float* gradients, float* state) {
  if (!ready(count)) return;
  switch (optimizer.rule) {
    case OptimizerRule::none: return zero(gradients, count);
    case OptimizerRule::sgd:
      launch_sgd(work_.stream, SgdUpdate{optimizer.learning_rate}, count, parameters, gradients);
      break;
    case OptimizerRule::momentum:
      launch_momentum(work_.stream, MomentumUpdate{optimizer.learning_rate, optimizer.momentum}, count,
                      parameters, gradients, state);
      break;
    case OptimizerRule::adam:
      launch_adam(work_.stream, adam_update(optimizer, number), count, parameters, gradients, state);
      break;
  }
  work_.check_launch("optimizer step");
}

void CudaQueue::begin(const LaunchLabel& label) {
  work_.set_label(label);
  ready();
  if (observer_ != nullptr) observer_->begin_launch(label);
}

void CudaQueue::end() {
  work_.set_label(std::nullopt);
  if (observer_ != nullptr) observer_->end_launch();
}

Result<std::unique_ptr<GpuEvent>> CudaQueue::make_event(EventUse use) {
  const std::string where = located(name_, *part_);
  PIPEPLAN_CHECK(check_cuda(part_->select(), "cudaSetDevice", where));
  cudaEvent_t made{};
  const unsigned flags = use == EventUse::timing ? cudaEventDefault : cudaEventDisableTiming;
  PIPEPLAN_CHECK(check_cuda(cudaEventCreateWithFlags(&made, flags), "cudaEventCreateWithFlags", where));
  auto event = std::make_unique<CudaEvent>();
  event->event.reset(made);
  return event;
}

void CudaQueue::record(GpuEvent& event) {
  if (ready()) work_.check(cudaEventRecord(raw(event), work_.stream), "cudaEventRecord");
}

void CudaQueue::wait(const GpuEvent& event) {
  if (ready()) work_.check(cudaStreamWaitEvent(work_.stream, raw(event), 0), "cudaStreamWaitEvent");
}

Result<Nanoseconds> CudaQueue::elapsed(const GpuEvent& from, const GpuEvent& to) const {
  float milliseconds = 0;
  PIPEPLAN_CHECK(check_cuda(cudaEventElapsedTime(&milliseconds, raw(from), raw(to)), "cudaEventElapsedTime",
                            located(name_, *part_)));
  return Nanoseconds(std::llround(static_cast<double>(milliseconds) * 1e6));
}

void CudaQueue::send(const float* from, GpuQueue& target, float* to, std::int64_t count) {
  if (!ready(count)) return;
  const auto there = static_cast<int>(target.part().device);
  if (there == part_->device()) return copy(from, to, count);
  work_.check(cudaMemcpyPeerAsync(to, there, from, part_->device(), byte_count(count), work_.stream),
              "cudaMemcpyPeerAsync");
}

void CudaQueue::idle(Nanoseconds duration) {
  if (!ready(duration.count())) return;
  launch_idle(work_.stream, duration.count());
  work_.check_launch("idle");
}

Result<void> CudaQueue::synchronize() {
  work_.check(part_->select(), "cudaSetDevice");
  work_.check(cudaStreamSynchronize(work_.stream), "cudaStreamSynchronize");
  return work_.take_failure();
}

Result<Bytes> CudaQueue::pool_high_water() const {
  std::uint64_t bytes = 0;
  PIPEPLAN_CHECK(check_cuda(cudaMemPoolGetAttribute(part_->pool.get(), cudaMemPoolAttrUsedMemHigh, &bytes),
                            "cudaMemPoolGetAttribute", located(name_, *part_)));
  return Bytes{static_cast<std::int64_t>(bytes)};
}

Result<std::vector<std::int64_t>> CudaQueue::sm_numbers() {
  const std::string where = located(name_, *part_);
  PIPEPLAN_CHECK(check_cuda(part_->select(), "cudaSetDevice", where));
  void* memory = nullptr;
  PIPEPLAN_CHECK(check_cuda(cudaMalloc(&memory, most_sm_numbers), "cudaMalloc", where));
  const DeviceMemory used(memory);
  PIPEPLAN_CHECK(
      check_cuda(cudaMemsetAsync(memory, 0, most_sm_numbers, work_.stream), "cudaMemsetAsync", where));
  launch_mark_sms(work_.stream, static_cast<int>(part_->granted.device_sm_count),
                  static_cast<unsigned char*>(memory));
  PIPEPLAN_CHECK(check_cuda(cudaGetLastError(), "mark_sms", where));
  std::vector<unsigned char> marks(most_sm_numbers);
  PIPEPLAN_CHECK(
      check_cuda(cudaMemcpyAsync(marks.data(), memory, marks.size(), cudaMemcpyDeviceToHost, work_.stream),
                 "cudaMemcpyAsync to the host", where));
  PIPEPLAN_CHECK(check_cuda(cudaStreamSynchronize(work_.stream), "cudaStreamSynchronize", where));
  std::vector<std::int64_t> numbers;
  for (std::size_t sm = 0; sm < marks.size(); ++sm)
    if (marks[sm] != 0) numbers.push_back(static_cast<std::int64_t>(sm));
  return numbers;
}

}  // namespace pipeplan
