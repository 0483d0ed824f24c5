#include "executor/cpu/cpu_device.hpp"

#include <algorithm>

#include "models/base/assert.hpp"
#include "models/layers/core_pin.hpp"
#include "profiler/load_guard.hpp"

namespace pipeplan {
namespace {

Nanoseconds now() { return std::chrono::steady_clock::now().time_since_epoch(); }

}  // namespace

CpuDevice::CpuDevice(CpuStage stage, Arena arena, PerId<StageId, Inbox>& inboxes, EventBoard& events)
    : stage_(std::move(stage)), arena_(std::move(arena)), inboxes_(inboxes), events_(events) {
  const auto count = static_cast<std::size_t>(stage_.micro_batch_count);
  losses_.resize(is_last() ? count : 0);
  inputs_.resize(is_first() ? count : 0);
  targets_.resize(is_last() ? count : 0);
  thread_ = std::thread([this] { work(); });
  wait_all();
}

CpuDevice::~CpuDevice() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void CpuDevice::set_up() {
  if (stage_.core) pin_to_core(*stage_.core);
  segment_ = std::make_unique<Segment>(stage_.layers, stage_.micro_batch_size, stage_.micro_batch_count,
                                       is_first(), arena_);
  segment_->initialize(static_cast<std::uint64_t>(stage_.seed), stage_.first_layer);
  const auto batch = stage_.micro_batch_size;
  Inbox& inbox = inboxes_[stage_.stage];
  const auto inputs = static_cast<std::size_t>(stage_.layers.front()->input_count(batch));
  const auto outputs = static_cast<std::size_t>(stage_.layers.back()->output_count(batch));
  inbox.activations.open(arena_, stage_.activation_slots, inputs);
  inbox.gradients.open(arena_, stage_.gradient_slots, outputs);
}

void CpuDevice::begin_iteration(std::int64_t number) {
  stamps_.clear();
  stamps_.reserve(static_cast<std::size_t>(4 * stage_.micro_batch_count + 1));
  memory_steps_.clear();
  memory_steps_.reserve(static_cast<std::size_t>(2 * stage_.micro_batch_count));
  arena_.reset_peak();
  load_data(number);
}

void CpuDevice::load_data(std::int64_t iteration) {
  for (std::int64_t k = 0; k < stage_.micro_batch_count; ++k) {
    const BatchKey key{.seed = stage_.seed, .iteration = iteration, .micro_batch = k};
    const auto at = static_cast<std::size_t>(k);
    if (is_first()) {
      inputs_[at].resize(
          static_cast<std::size_t>(stage_.layers.front()->input_count(stage_.micro_batch_size)));
      fill_inputs(stage_.first_spec, key, inputs_[at]);
    }
    if (is_last()) {
      targets_[at].resize(
          static_cast<std::size_t>(stage_.layers.back()->target_count(stage_.micro_batch_size)));
      fill_targets(stage_.first_spec, stage_.last_spec, key, targets_[at]);
    }
  }
}

void CpuDevice::enqueue(const Command& command) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(&command);
    busy_ = true;
  }
  changed_.notify_all();
}

void CpuDevice::wait_all() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !busy_ && queue_.empty(); });
}

void CpuDevice::work() {
  set_up();
  for (;;) {
    std::unique_lock lock(mutex_);
    if (queue_.empty()) {
      busy_ = false;
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const Command& command = *queue_.front();
    queue_.pop_front();
    lock.unlock();
    run(command);
  }
}

void CpuDevice::run(const Command& command) {
  for (const CommandId id : command.waits) events_.wait(id);
  Stamp stamp{.command = command.id, .start = now()};
  const Nanoseconds cpu_start = thread_cpu_time();
  switch (command.kind) {
    case CommandKind::compute:
      command.op.kind == OpKind::forward ? forward(command) : backward(command);
      break;
    case CommandKind::send: send(command); break;
    case CommandKind::step: step(); break;
  }
  stamp.cpu = thread_cpu_time() - cpu_start;
  stamp.end = now();
  if (command.kind == CommandKind::compute)
    note_memory(command.op.kind == OpKind::forward ? stamp.start : stamp.end);
  stamps_.push_back(stamp);
  events_.signal(command.id);
}

void CpuDevice::note_memory(Nanoseconds at) {
  memory_steps_.push_back({.at = at, .bytes = arena_.in_use().total(), .in_flight = in_flight_});
}

void CpuDevice::forward(const Command& command) {
  const std::int64_t k = command.op.micro_batch.value;
  segment_->begin(k);
  ++in_flight_;
  const std::span<float> input = segment_->input(k);
  if (is_first())
    std::ranges::copy(inputs_[static_cast<std::size_t>(k)], input.begin());
  else
    std::ranges::copy(inboxes_[stage_.stage].activations.slot(command.sequence), input.begin());
  if (is_last()) std::ranges::copy(targets_[static_cast<std::size_t>(k)], segment_->targets(k).begin());
  segment_->forward(k);
  if (is_last()) losses_[static_cast<std::size_t>(k)] = segment_->output()[0];
}

void CpuDevice::backward(const Command& command) {
  PIPEPLAN_ASSERT(command.op.kind == OpKind::backward);
  const std::int64_t k = command.op.micro_batch.value;
  const std::span<float> gradient = segment_->output_gradient();
  if (is_last())
    std::ranges::fill(gradient, 1.0F / static_cast<float>(stage_.micro_batch_count));
  else
    std::ranges::copy(inboxes_[stage_.stage].gradients.slot(command.sequence), gradient.begin());
  segment_->backward(k);
  segment_->finish(k);
  --in_flight_;
}

void CpuDevice::send(const Command& command) {
  const bool onward = command.op.kind == OpKind::forward;
  if (onward)
    std::ranges::copy(segment_->output(),
                      inboxes_[stage_.stage.next()].activations.slot(command.sequence).begin());
  else
    std::ranges::copy(segment_->input_gradient(),
                      inboxes_[stage_.stage.previous()].gradients.slot(command.sequence).begin());
}

void CpuDevice::step() {
  if (keep_gradients_) {
    gradients_.clear();
    for (std::size_t i = 0; i < segment_->layer_count(); ++i) {
      const auto values = segment_->gradients(i);
      gradients_.emplace_back(values.begin(), values.end());
    }
  }
  segment_->step(stage_.learning_rate);
}

RankMemory CpuDevice::memory() const {
  RankMemory memory{.steps = memory_steps_, .peak = arena_.at_peak(), .peak_at = {}};
  for (const MemoryStep& step : memory_steps_) {
    memory.peak_in_flight = std::max(memory.peak_in_flight, step.in_flight);
    if (step.bytes == memory.peak.total() && memory.peak_at == Nanoseconds::zero()) memory.peak_at = step.at;
  }
  return memory;
}

std::vector<std::vector<float>> CpuDevice::parameters() const {
  std::vector<std::vector<float>> all;
  for (std::size_t i = 0; i < segment_->layer_count(); ++i) {
    const auto values = segment_->parameters(i);
    all.emplace_back(values.begin(), values.end());
  }
  return all;
}

}  // namespace pipeplan
