#include "tests/support/host_gpu.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "models/layers/green_split.hpp"

namespace pipeplan::test {

// Who collects: hears of what the queues run, not whose it is.
struct WorkListener {
  virtual ~WorkListener() = default;
  virtual void note(GpuWork work) = 0;
  virtual void note(GpuMemoryEvent event) = 0;
};

// What queues, events and collector of one backend share.
struct HostGpuState {
  HostGpuOptions options;
  Nanoseconds now = std::chrono::milliseconds(1);
  Nanoseconds busy_until{};  // the latest end of anything enqueued
  std::int64_t launches = 0, host_waits = 0, synchronizes = 0;
  std::vector<std::string> misuses;

  WorkListener* listener = nullptr;
  std::uint32_t correlation = 0;

  void misuse(const std::string& what) { misuses.push_back(what); }
};

namespace {

constexpr std::int64_t sms_per_group = 8;

using State = std::shared_ptr<HostGpuState>;

Nanoseconds bytes_time(const std::optional<BytesPerSecond>& bandwidth, Bytes bytes) {
  return bandwidth ? transfer_time(bytes, *bandwidth) : Nanoseconds{};
}

Bytes scalar_bytes(std::int64_t count) { return Bytes{count * static_cast<std::int64_t>(sizeof(float))}; }

struct HostGpuEvent final : GpuEvent {
  explicit HostGpuEvent(EventUse given) : use(given) {}
  EventUse use;
  std::optional<Nanoseconds> at;
};

const HostGpuEvent& host_event(const GpuEvent& event) { return dynamic_cast<const HostGpuEvent&>(event); }

// Memory of one part, as a pool of the driver counts it.
struct Pool {
  Bytes in_use, high_water;
};

class HostGpuCollector final : public GpuCollector, public WorkListener {
 public:
  explicit HostGpuCollector(State state) : state_(std::move(state)) {}
  ~HostGpuCollector() override {
    if (state_->listener == this) state_->listener = nullptr;
  }

  Result<void> start() override {
    if (state_->options.start_refusal) return Failure(*state_->options.start_refusal);
    if (state_->listener != nullptr) state_->misuse("two collectors run at once");
    trace_ = {};
    trace_.fabricated = true;
    state_->listener = this;
    return {};
  }

  void begin_iteration(std::int64_t number) override {
    expect_idle("begins");
    iteration_ = number;
    trace_.iterations.push_back({.number = number, .start = state_->now.count(), .end = 0});
  }

  void end_iteration() override {
    expect_idle("ends");
    GpuIteration& last = trace_.iterations.back();
    last.end = state_->now.count();
    for (std::int64_t i = 0; i < state_->options.stray_kernels; ++i)
      note({.name = "stray_kernel", .start = last.start, .end = last.end});
  }

  Result<void> discard() override {
    trace_ = {.fabricated = true};
    return {};
  }

  Result<GpuTrace> stop() override {
    state_->listener = nullptr;
    trace_.dropped_records = state_->options.dropped_records;
    return std::move(trace_);
  }

  void begin_launch(const LaunchLabel& label) override { label_ = label; }
  void end_launch() override { label_.reset(); }

  void note(GpuWork work) override {
    work.correlation = next_correlation(work.start - 1);
    trace_.work.push_back(std::move(work));
  }
  void note(GpuMemoryEvent event) override {
    event.correlation = next_correlation(event.at - 1);
    trace_.memory.push_back(event);
  }

 private:
  std::uint32_t next_correlation(std::int64_t at) {
    const std::uint32_t id = ++state_->correlation;
    if (label_)
      trace_.launches.push_back(
          {.correlation = id, .tag = pack({.iteration = iteration_, .label = *label_}), .at = at});
    return id;
  }

  void expect_idle(const char* what) {
    if (state_->busy_until > state_->now)
      state_->misuse(fmt::format("an iteration {} while a queue is busy", what));
  }

  State state_;
  GpuTrace trace_;
  std::int64_t iteration_ = 0;
  std::optional<LaunchLabel> label_;
};

class HostGpuQueue final : public GpuQueue {
 public:
  HostGpuQueue(State state, std::shared_ptr<Pool> pool, std::string name, GpuPart part)
      : state_(std::move(state)), pool_(std::move(pool)), name_(std::move(name)), part_(std::move(part)) {}

  Result<std::unique_ptr<RunnableLayer<float>>> make_layer(const LayerSpec& spec,
                                                           const std::string& where) override;
  Result<Arena> reserve(Bytes capacity, const std::string& where) override;

  void zero(float* place, std::int64_t count) override { fill(place, count, 0); }
  void fill(float* place, std::int64_t count, float value) override {
    if (!good()) return;
    host_->fill(place, count, value);
    move_bytes(GpuWorkKind::set, count);
  }
  void copy(const float* from, float* to, std::int64_t count) override {
    if (!good()) return;
    host_->copy(from, to, count);
    move_bytes(GpuWorkKind::copy, count);
  }
  void add(const float* from, float* to, std::int64_t count) override {
    if (!good()) return;
    host_->add(from, to, count);
    move_bytes(GpuWorkKind::copy, count);
  }
  void upload(std::span<const float> from, float* to) override {
    if (good()) host_->upload(from, to);
  }
  void download(const float* from, std::span<float> to) override {
    if (!good()) return;
    meet_host();
    host_->download(from, to);
  }
  void step(const Optimizer& optimizer, std::int64_t number, std::int64_t count, float* parameters,
            float* gradients, float* state) override {
    expect_launch("an optimizer step");
    if (good()) host_->step(optimizer, number, count, parameters, gradients, state);
  }

  void begin(const LaunchLabel& label) override;
  void end() override;

  [[nodiscard]] const GpuPart& part() const override { return part_; }
  Result<std::unique_ptr<GpuQueue>> make_sibling(const std::string& name) override {
    return std::make_unique<HostGpuQueue>(state_, pool_, name, part_);
  }

  Result<std::unique_ptr<GpuEvent>> make_event(EventUse use) override {
    return std::make_unique<HostGpuEvent>(use);
  }
  void record(GpuEvent& event) override {
    if (good()) dynamic_cast<HostGpuEvent&>(event).at = free_at();
  }
  void wait(const GpuEvent& event) override;
  [[nodiscard]] Result<Nanoseconds> elapsed(const GpuEvent& from, const GpuEvent& to) const override;

  void send(const float* from, GpuQueue& target, float* to, std::int64_t count) override;
  void idle(Nanoseconds duration) override {
    if (good()) take({}, duration);
  }
  void set_observer(LaunchObserver* observer) override { observer_ = observer; }
  Result<void> synchronize() override;
  [[nodiscard]] Result<Bytes> pool_high_water() const override { return pool_->high_water; }

  // Asked by the layers of this queue: whether they may run, and what for.
  bool good_to_run(std::int64_t batch) {
    expect_launch("a layer");
    batch_ = batch;
    return good();
  }

 private:
  [[nodiscard]] bool good() const { return !failure_; }
  void fail(const std::string& call) {
    if (failure_) return;
    const std::string doing = label_ ? fmt::format(" in layer {}, {}, micro-batch {}", label_->layer,
                                                   spelt(label_->pass), label_->micro_batch)
                                     : std::string();
    failure_ = Error{ErrorCode::unavailable, fmt::format("{} failed{}: made to fail", call, doing),
                     fmt::format("{} on device {}", name_, part_.device), ""};
  }
  void expect_launch(const char* what) {
    if (!label_) state_->misuse(fmt::format("{} runs outside a launch", what));
  }

  // When what is enqueued now can start.
  [[nodiscard]] Nanoseconds free_at() const { return std::max(time_, state_->now); }
  // Moves on by `gap`, then by `duration`; returns the start.
  Nanoseconds take(Nanoseconds gap, Nanoseconds duration) {
    const Nanoseconds start = free_at() + gap;
    time_ = start + duration;
    state_->busy_until = std::max(state_->busy_until, time_);
    return start;
  }
  void move_bytes(GpuWorkKind kind, std::int64_t count) {
    const Bytes bytes = scalar_bytes(count);
    const Nanoseconds start = take({}, bytes_time(state_->options.memory_bandwidth, bytes));
    note(kind, "", start, bytes);
  }
  void note(GpuWorkKind kind, const std::string& name, Nanoseconds start, Bytes bytes) {
    if (state_->listener == nullptr) return;
    state_->listener->note(
        {.kind = kind, .name = name, .start = start.count(), .end = time_.count(), .bytes = bytes.value});
  }
  void meet_host() {
    ++state_->host_waits;
    state_->now = std::max(state_->now, time_);
  }

  State state_;
  std::shared_ptr<Pool> pool_;
  std::string name_;
  GpuPart part_;
  std::unique_ptr<Processor> host_ = make_host_processor();
  LaunchObserver* observer_ = nullptr;
  Nanoseconds time_{};
  std::optional<LaunchLabel> label_;
  std::int64_t batch_ = 0;
  std::optional<Error> failure_;
};

// A layer of the CPU that tells its queue what runs, and does nothing once the queue has failed.
class HostGpuLayer final : public RunnableLayer<float> {
 public:
  HostGpuLayer(std::unique_ptr<RunnableLayer<float>> twin, HostGpuQueue& queue, std::int64_t extra_scratch)
      : twin_(std::move(twin)), queue_(queue), extra_scratch_(extra_scratch) {}

  [[nodiscard]] std::int64_t parameter_count() const override { return twin_->parameter_count(); }
  [[nodiscard]] std::int64_t parameter_buffer_count() const override {
    return twin_->parameter_buffer_count();
  }
  [[nodiscard]] std::int64_t input_count(std::int64_t batch) const override {
    return twin_->input_count(batch);
  }
  [[nodiscard]] std::int64_t output_count(std::int64_t batch) const override {
    return twin_->output_count(batch);
  }
  [[nodiscard]] std::int64_t stash_count(std::int64_t batch) const override {
    return twin_->stash_count(batch);
  }
  [[nodiscard]] std::int64_t deferred_count(std::int64_t batch) const override {
    return twin_->deferred_count(batch);
  }
  [[nodiscard]] std::int64_t scratch_count(std::int64_t batch) const override {
    return twin_->scratch_count(batch) + extra_scratch_;
  }
  [[nodiscard]] std::int64_t target_offset(std::int64_t batch) const override {
    return twin_->target_offset(batch);
  }
  [[nodiscard]] std::int64_t target_count(std::int64_t batch) const override {
    return twin_->target_count(batch);
  }

  void initialize(float* parameters, std::uint64_t seed) const override {
    twin_->initialize(parameters, seed);
  }
  void forward(std::int64_t batch, const float* parameters, float* stash, float* output,
               float* scratch) const override {
    if (queue_.good_to_run(batch)) twin_->forward(batch, parameters, stash, output, scratch);
  }
  void backward_input(std::int64_t batch, const float* parameters, const float* stash,
                      const float* grad_output, float* grad_input, float* deferred,
                      float* scratch) const override {
    if (queue_.good_to_run(batch))
      twin_->backward_input(batch, parameters, stash, grad_output, grad_input, deferred, scratch);
  }
  void backward_weight(std::int64_t batch, const float* parameters, const float* stash,
                       const float* grad_output, const float* deferred, float* grad_parameters,
                       float* scratch) const override {
    if (queue_.good_to_run(batch))
      twin_->backward_weight(batch, parameters, stash, grad_output, deferred, grad_parameters, scratch);
  }

 private:
  std::unique_ptr<RunnableLayer<float>> twin_;
  HostGpuQueue& queue_;
  std::int64_t extra_scratch_;
};

Result<std::unique_ptr<RunnableLayer<float>>> HostGpuQueue::make_layer(const LayerSpec& spec,
                                                                       const std::string& where) {
  PIPEPLAN_TRY(twin, host_->make_layer(spec, where));
  return std::make_unique<HostGpuLayer>(std::move(twin), *this, state_->options.extra_scratch);
}

Result<Arena> HostGpuQueue::reserve(Bytes capacity, const std::string& where) {
  const Bytes size{std::max(arena_bytes(capacity).value, buffer_alignment)};
  const Bytes left = state_->options.memory - pool_->in_use;
  if (size > left)
    return pipeplan::fail(ErrorCode::unavailable, where,
                          fmt::format("needs {} of memory, {} has {} left", display(capacity),
                                      part_.device_name, display(left)));
  auto* region =
      static_cast<std::byte*>(std::aligned_alloc(buffer_alignment, static_cast<std::size_t>(size.value)));
  std::memset(region, 0, static_cast<std::size_t>(size.value));
  pool_->in_use += size;
  pool_->high_water = std::max(pool_->high_water, pool_->in_use);
  if (state_->listener != nullptr)
    state_->listener->note(GpuMemoryEvent{.allocation = true,
                                          .address = reinterpret_cast<std::uintptr_t>(region),
                                          .bytes = size.value,
                                          .at = free_at().count(),
                                          .pool_bytes = pool_->in_use.value});
  return Arena(region, capacity, [pool = pool_, size](std::byte* block) {
    pool->in_use -= size;
    std::free(block);
  });
}

void HostGpuQueue::begin(const LaunchLabel& label) {
  if (label_) state_->misuse("a launch begins within another");
  label_ = label;
  batch_ = 0;
  if (observer_ != nullptr) observer_->begin_launch(label);
  if (++state_->launches == state_->options.failing_launch) fail("cudaLaunchKernel");
}

void HostGpuQueue::end() {
  if (!label_) return state_->misuse("a launch ends that has not begun");
  const HostGpuOptions& options = state_->options;
  Nanoseconds time = options.time({.label = *label_, .batch = batch_, .sm_count = part_.sm_count});
  if (good() && time > Nanoseconds::zero()) {
    const bool others_busy = state_->busy_until > free_at();
    if (others_busy)
      time = Nanoseconds{std::llround(static_cast<double>(time.count()) * options.busy_factor)};
    const bool collected = state_->listener != nullptr;
    const Nanoseconds gap = options.launch_gap + (collected ? options.collector_gap : Nanoseconds{});
    const Nanoseconds start = take(gap, time);
    note(GpuWorkKind::kernel, std::string(spelt(label_->pass)), start, {});
  }
  if (observer_ != nullptr) observer_->end_launch();
  label_.reset();
}

void HostGpuQueue::wait(const GpuEvent& event) {
  const HostGpuEvent& it = host_event(event);
  if (!good()) return;
  if (!it.at) return state_->misuse(fmt::format("{} waits for an event that nobody recorded", name_));
  time_ = std::max(free_at(), *it.at);
}

Result<Nanoseconds> HostGpuQueue::elapsed(const GpuEvent& from, const GpuEvent& to) const {
  const HostGpuEvent& first = host_event(from);
  const HostGpuEvent& last = host_event(to);
  const std::string where = fmt::format("{} on device {}", name_, part_.device);
  if (first.use != EventUse::timing || last.use != EventUse::timing || !first.at || !last.at)
    return pipeplan::fail(ErrorCode::unavailable, where,
                          "cudaEventElapsedTime failed: invalid resource handle");
  if (std::max(*first.at, *last.at) > state_->now)
    return pipeplan::fail(ErrorCode::unavailable, where, "cudaEventElapsedTime failed: device not ready");
  return *last.at - *first.at;
}

void HostGpuQueue::send(const float* from, GpuQueue& target, float* to, std::int64_t count) {
  if (!good()) return;
  host_->copy(from, to, count);
  const HostGpuOptions& options = state_->options;
  const Bytes bytes = scalar_bytes(count);
  const Nanoseconds start = take({}, options.send_latency + bytes_time(options.send_bandwidth, bytes));
  const bool near = target.part().device == part_.device;
  note(near ? GpuWorkKind::copy : GpuWorkKind::peer_copy, "", start, bytes);
}

Result<void> HostGpuQueue::synchronize() {
  if (++state_->synchronizes == state_->options.failing_synchronize) fail("cudaStreamSynchronize");
  meet_host();
  if (!failure_) return {};
  const Error error = *failure_;
  failure_.reset();
  return Failure(error);
}

}  // namespace

Nanoseconds default_host_gpu_time(const HostGpuWork& work) {
  switch (work.label.pass) {
    case LayerPass::forward:
    case LayerPass::backward_input:
    case LayerPass::backward_weight: return std::chrono::microseconds(1);
    case LayerPass::optimizer: return Nanoseconds{500};
    case LayerPass::transfer:
    case LayerPass::other: break;
  }
  return {};
}

HostGpu::HostGpu(HostGpuOptions options) : state_(std::make_shared<HostGpuState>()) {
  state_->options = std::move(options);
}

HostGpuOptions& HostGpu::options() { return state_->options; }
Nanoseconds HostGpu::now() const { return state_->now; }
std::int64_t HostGpu::host_wait_count() const { return state_->host_waits; }
const std::vector<std::string>& HostGpu::misuses() const { return state_->misuses; }

Result<std::vector<GpuDevice>> HostGpu::devices() {
  const HostGpuOptions& options = state_->options;
  if (options.device_count == 0) return fail(ErrorCode::unavailable, "", "no CUDA device: made to have none");
  std::vector<GpuDevice> devices;
  for (std::int64_t i = 0; i < options.device_count; ++i) {
    devices.push_back({.index = i,
                       .name = "host GPU",
                       .memory = options.memory,
                       .free_memory = options.memory,
                       .sm_count = options.sm_count,
                       .compute_capability = "9.0",
                       .smallest_partition_sms = sms_per_group,
                       .peers = {}});
    for (std::int64_t peer = 0; peer < options.device_count; ++peer)
      if (peer != i) devices.back().peers.push_back(peer);
  }
  return devices;
}

namespace {

// SMs per request: all of them, or as many groups as the requests on one device share out.
Result<std::vector<std::int64_t>> granted_sms(const HostGpuOptions& options, PartitionKind kind,
                                              std::span<const PartRequest> requests) {
  std::vector<std::int64_t> granted(requests.size(), options.sm_count);
  if (kind != PartitionKind::green) return granted;
  for (std::int64_t device = 0; device < options.device_count; ++device) {
    std::vector<std::optional<std::int64_t>> wanted;
    for (const PartRequest& request : requests)
      if (request.device == device) wanted.push_back(request.sm_count);
    if (wanted.empty()) continue;
    const SmGroups all{options.sm_count / sms_per_group, sms_per_group, options.sm_count};
    PIPEPLAN_TRY(groups, split_groups(all, wanted, fmt::format("device {}", device)));
    auto next = groups.begin();
    for (std::size_t i = 0; i < requests.size(); ++i)
      if (requests[i].device == device) granted[i] = *next++ * sms_per_group;
  }
  return granted;
}

}  // namespace

Result<std::vector<std::unique_ptr<GpuQueue>>> HostGpu::open(PartitionKind kind,
                                                             std::span<const PartRequest> requests) {
  const HostGpuOptions& options = state_->options;
  for (const PartRequest& request : requests)
    if (request.device < 0 || request.device >= options.device_count)
      return fail(ErrorCode::unavailable, request.name, fmt::format("there is no device {}", request.device));
  PIPEPLAN_TRY(granted, granted_sms(options, kind, requests));
  std::vector<std::unique_ptr<GpuQueue>> queues;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const GpuPart part{requests[i].device, "host GPU", kind, granted[i], options.sm_count};
    queues.push_back(
        std::make_unique<HostGpuQueue>(state_, std::make_shared<Pool>(), requests[i].name, part));
  }
  return queues;
}

Result<std::unique_ptr<GpuCollector>> HostGpu::make_collector() {
  if (state_->options.collector_refusal) return Failure(*state_->options.collector_refusal);
  return std::make_unique<HostGpuCollector>(state_);
}

}  // namespace pipeplan::test
