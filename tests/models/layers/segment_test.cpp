#include "models/layers/segment.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "models/zoo/zoo.hpp"
#include "tests/support/random.hpp"

namespace pipeplan::test {
namespace {

using Floats = std::vector<float>;

constexpr std::int64_t micro_batches = 3;

// Part of a network, cut out and fed with numbers at both ends.
struct Cut {
  std::string name;
  ModelSpec model;
  std::size_t first, end;
  bool has_tokens, has_loss;
};

std::vector<Cut> sample_cuts() {
  const MlpSpec mlp{.inputs = 5, .width = 7, .layers = 2, .outputs = 3};
  const TransformerSpec transformer{.blocks = 1, .hidden = 8, .heads = 2, .sequence = 5, .vocabulary = 11};
  return {{"whole mlp", mlp, 0, 6, false, true},
          {"middle of an mlp", mlp, 1, 4, false, false},
          {"end of an mlp", mlp, 3, 6, false, true},
          {"whole transformer", transformer, 0, 6, true, true},
          {"start of a transformer", transformer, 0, 4, true, false},
          {"middle of a transformer", transformer, 1, 5, false, false},
          {"end of a transformer", transformer, 2, 6, false, true}};
}

std::int64_t vocabulary_of(const Cut& cut) {
  const auto* transformer = std::get_if<TransformerSpec>(&cut.model);
  return transformer != nullptr ? transformer->vocabulary : 0;
}

// A segment in memory of exactly the size that it should need, and all that comes out of it.
class Trained {
 public:
  Trained(const Cut& cut, OptimizerRule rule, std::vector<bool> recomputed = {})
      : cut_(cut),
        layers_(made_layers(cut)),
        spec_{.layers = std::span(layers_).subspan(cut.first, cut.end - cut.first),
              .first_layer = static_cast<std::int64_t>(cut.first),
              .batch = 2,
              .micro_batch_count = micro_batches,
              .optimizer = rule,
              .recomputed = std::move(recomputed)},
        arena_(made_arena(spec_)),
        segment(spec_, *processor_, arena_) {
    segment.initialize(9);
  }

  void forward(std::int64_t k) {
    segment.begin(k);
    fill(segment.input(k), cut_.has_tokens ? vocabulary_of(cut_) : 0, 3 * number_ + k);
    fill(segment.targets(k), vocabulary_of(cut_), 3 * number_ + k);
    segment.forward(k);
    keep(segment.output());
  }
  void fused_backward(std::int64_t k) {
    if (segment.recomputes()) segment.recompute(k);
    fill_gradient(segment.output_gradient(), k);
    segment.backward(k);
    keep_input_gradient();
    segment.finish(k);
  }
  void split_backward_input(std::int64_t k) {
    segment.begin_split(k);
    fill_gradient(segment.split_output_gradient(k), k);
    segment.backward_input(k);
    keep_input_gradient();
  }
  void split_backward_weight(std::int64_t k) {
    segment.backward_weight(k);
    segment.finish(k);
  }

  void step() {
    for (std::size_t i = 0; i < segment.layer_count(); ++i) keep(segment.gradients(i));
    segment.step({.rule = spec_.optimizer, .learning_rate = 0.01F}, ++number_);
    for (std::size_t i = 0; i < segment.layer_count(); ++i) {
      keep(segment.parameters(i));
      keep(segment.optimizer_state(i));
    }
  }

  // All outputs, input gradients, gradients, parameters and states, in the order of their making.
  [[nodiscard]] const std::vector<Floats>& kept() const { return kept_; }
  // The same, sorted: where only the order of the calls differs.
  [[nodiscard]] std::vector<Floats> sorted() const {
    std::vector<Floats> all = kept_;
    std::ranges::sort(all);
    return all;
  }
  [[nodiscard]] const SegmentSpec& spec() const { return spec_; }
  [[nodiscard]] Arena& arena() { return arena_; }

 private:
  static RunnableLayers made_layers(const Cut& cut) {
    const auto graph = build_model(cut.model);
    REQUIRE(graph);
    auto layers = runnable_layers(*graph);
    REQUIRE(layers);
    return std::move(*layers);
  }
  // Of exactly the size that should do, and full of NaN: memory of a GPU is not cleared either.
  static Arena made_arena(const SegmentSpec& spec) {
    const bool split = std::ranges::count(spec.recomputed, true) == 0;
    const Bytes capacity = segment_memory(spec, micro_batches, split ? micro_batches : 0).total();
    const auto size = static_cast<std::size_t>(capacity.value);
    auto* region = static_cast<std::byte*>(std::aligned_alloc(buffer_alignment, size));
    REQUIRE(region != nullptr);
    std::memset(region, 0xff, size);
    return Arena(region, capacity, [](std::byte* block) { std::free(block); });
  }

  // Whole numbers below `ids` if there are such, else numbers from -1 to 1.
  static void fill(std::span<float> place, std::int64_t ids, std::int64_t seed) {
    Random random(static_cast<std::uint64_t>(seed) + 31);
    for (float& value : place)
      value = ids > 0 ? static_cast<float>(random.between(0, ids - 1))
                      : static_cast<float>(random.between(-1000, 1000)) / 1000;
  }
  void fill_gradient(std::span<float> place, std::int64_t k) const {
    if (cut_.has_loss)
      place[0] = 1.0F / micro_batches;
    else
      fill(place, 0, 1000 + k);
  }
  void keep(std::span<const float> values) { kept_.emplace_back(values.begin(), values.end()); }
  void keep_input_gradient() {
    if (cut_.first > 0) keep(segment.input_gradient());
  }

  Cut cut_;
  RunnableLayers layers_;
  SegmentSpec spec_;
  std::unique_ptr<Processor> processor_ = make_host_processor();
  Arena arena_;
  std::vector<Floats> kept_;
  std::int64_t number_ = 0;

 public:
  Segment segment;
};

// Two iterations with all micro-batches in flight at once, the backwards in this order.
void train(Trained& trained, const std::vector<std::int64_t>& backwards) {
  for (int iteration = 0; iteration < 2; ++iteration) {
    for (std::int64_t k = 0; k < micro_batches; ++k) trained.forward(k);
    for (const std::int64_t k : backwards) trained.fused_backward(k);
    trained.step();
  }
}

// Every choice of recomputed layers; a loss is never among them.
std::vector<std::vector<bool>> recomputation_choices(const Cut& cut) {
  const std::size_t count = cut.end - cut.first, free = cut.has_loss ? count - 1 : count;
  std::vector<std::vector<bool>> choices;
  for (unsigned mask = 0; mask < 1U << free; ++mask) {
    std::vector<bool> choice(count);
    for (std::size_t i = 0; i < free; ++i) choice[i] = (mask >> i & 1U) != 0;
    choices.push_back(choice);
  }
  return choices;
}

// One legal order of F, B and W over all micro-batches, drawn at random; W of a micro-batch comes somewhere
// behind its B. Returns the order of the Ws.
std::vector<std::int64_t> run_split_at_random(Trained& trained, Random& random) {
  std::vector<std::int64_t> forwarded, halfway, done;
  const auto draw = [&](std::vector<std::int64_t>& from) {
    const auto at = from.begin() + random.between(0, static_cast<std::int64_t>(from.size()) - 1);
    const std::int64_t drawn = *at;
    from.erase(at);
    return drawn;
  };
  std::int64_t next = 0;
  while (std::cmp_less(done.size(), micro_batches)) {
    const std::int64_t kind = random.between(0, 2);
    if (kind == 0 && next < micro_batches) {
      trained.forward(next);
      forwarded.push_back(next++);
    } else if (kind == 1 && !forwarded.empty()) {
      halfway.push_back(draw(forwarded));
      trained.split_backward_input(halfway.back());
    } else if (kind == 2 && !halfway.empty()) {
      done.push_back(draw(halfway));
      trained.split_backward_weight(done.back());
    }
  }
  return done;
}

// One iteration with the first `split` of `in_flight` micro-batches split.
void check_peaks(Trained& trained, std::int64_t in_flight, std::int64_t split) {
  const SegmentSpec& spec = trained.spec();
  CHECK(trained.arena().at_peak() == segment_memory(spec, 0));
  for (std::int64_t k = 0; k < in_flight; ++k) trained.forward(k);
  CHECK(trained.arena().at_peak() == segment_memory(spec, in_flight));
  for (std::int64_t k = 0; k < split; ++k) trained.split_backward_input(k);
  CHECK(trained.arena().at_peak() == segment_memory(spec, in_flight, split));
  for (std::int64_t k = 0; k < split; ++k) trained.split_backward_weight(k);
  for (std::int64_t k = split; k < in_flight; ++k) trained.fused_backward(k);
  trained.step();
  CHECK(trained.arena().at_peak() == segment_memory(spec, in_flight, split));
  CHECK(trained.arena().in_use() == segment_memory(spec, 0));
}

// Runs layers on the CPU and notes what each call is labelled with; outside of labels it notes nothing.
class NotingProcessor final : public Processor {
 public:
  Result<std::unique_ptr<RunnableLayer<float>>> make_layer(const LayerSpec& spec,
                                                           const std::string& where) override {
    return host_->make_layer(spec, where);
  }
  Result<Arena> reserve(Bytes capacity, const std::string& where) override {
    return host_->reserve(capacity, where);
  }
  void zero(float* place, std::int64_t count) override { host_->zero(place, count); }
  void fill(float* place, std::int64_t count, float value) override { host_->fill(place, count, value); }
  void copy(const float* from, float* to, std::int64_t count) override { host_->copy(from, to, count); }
  void add(const float* from, float* to, std::int64_t count) override { host_->add(from, to, count); }
  void upload(std::span<const float> from, float* to) override { host_->upload(from, to); }
  void download(const float* from, std::span<float> to) override { host_->download(from, to); }
  void step(const Optimizer& optimizer, std::int64_t number, std::int64_t count, float* parameters,
            float* gradients, float* state) override {
    host_->step(optimizer, number, count, parameters, gradients, state);
  }
  void begin(const LaunchLabel& label) override {
    CHECK_FALSE(open_);
    open_ = true;
    labels.push_back(label);
  }
  void end() override { open_ = false; }

  std::vector<LaunchLabel> labels;

 private:
  std::unique_ptr<Processor> host_ = make_host_processor();
  bool open_ = false;
};

}  // namespace

TEST_CASE("segment: whatever is recomputed, training is bit-equal to keeping everything") {
  for (const Cut& cut : sample_cuts()) {
    Trained plain(cut, OptimizerRule::adam);
    train(plain, {1, 2, 0});
    for (const std::vector<bool>& choice : recomputation_choices(cut)) {
      std::string shown = cut.name + ", recomputed:";
      for (const bool yes : choice) shown += yes ? " 1" : " 0";
      INFO(shown);
      Trained recomputed(cut, OptimizerRule::adam, choice);
      train(recomputed, {1, 2, 0});
      CHECK(recomputed.kept() == plain.kept());
    }
  }
}

TEST_CASE("segment: training moves every parameter that the outputs depend on") {
  // What the bit-equal cases compare must not be a row of zeros.
  for (const Cut& cut : sample_cuts()) {
    INFO(cut.name);
    Trained trained(cut, OptimizerRule::sgd);
    std::vector<Floats> before;
    for (std::size_t i = 0; i < trained.segment.layer_count(); ++i)
      before.emplace_back(trained.segment.parameters(i).begin(), trained.segment.parameters(i).end());
    train(trained, {0, 1, 2});
    for (std::size_t i = 0; i < before.size(); ++i) {
      const std::span<float> after = trained.segment.parameters(i);
      if (!after.empty()) CHECK_FALSE(std::ranges::equal(after, before[i]));
    }
  }
}

TEST_CASE(
    "segment: any legal interleaving of F, B and W is bit-equal to the fused backward in the order of W") {
  const std::uint64_t seed = 23;
  INFO("seed " << seed);
  Random random(seed);
  for (const Cut& cut : sample_cuts()) {
    INFO(cut.name);
    for (int i = 0; i < 25; ++i) {
      Trained split(cut, OptimizerRule::momentum), fused(cut, OptimizerRule::momentum);
      for (int iteration = 0; iteration < 2; ++iteration) {
        const std::vector<std::int64_t> order = run_split_at_random(split, random);
        split.step();
        for (std::int64_t k = 0; k < micro_batches; ++k) fused.forward(k);
        for (const std::int64_t k : order) fused.fused_backward(k);
        fused.step();
      }
      CHECK(split.sorted() == fused.sorted());
    }
  }
}

TEST_CASE("segment: the arena at its peak is segment_memory to the byte, item by item") {
  for (const Cut& cut : sample_cuts())
    for (const OptimizerRule rule : {OptimizerRule::sgd, OptimizerRule::momentum, OptimizerRule::adam})
      for (const std::vector<bool>& choice : recomputation_choices(cut))
        for (std::int64_t in_flight = 1; in_flight <= micro_batches; ++in_flight)
          for (std::int64_t split = 0; split <= in_flight; ++split) {
            INFO(cut.name);
            Trained trained(cut, rule, choice);
            check_peaks(trained, in_flight, trained.segment.recomputes() ? 0 : split);
          }
}

TEST_CASE("segment_memory: by hand for linear 16 to 32, relu and linear 32 to 16 at batch 2 under Adam") {
  const auto graph = build_model(MlpSpec{.inputs = 16, .width = 32, .layers = 1, .outputs = 16}).value();
  const RunnableLayers layers = runnable_layers(graph).value();
  SegmentSpec spec{.layers = std::span(layers).first(3),
                   .first_layer = 0,
                   .batch = 2,
                   .micro_batch_count = 5,
                   .optimizer = OptimizerRule::adam};
  const std::int64_t parameters = 4 * (16 * 32 + 32) + 4 * (32 * 16 + 16);
  const std::int64_t narrow = 4 * 2 * 16, wide = 4 * 2 * 32;
  const MemoryUse plain = segment_memory(spec, 5, 3);
  CHECK(plain[MemoryItem::weights] == Bytes{parameters});
  CHECK(plain[MemoryItem::gradients] == Bytes{parameters});
  CHECK(plain[MemoryItem::optimizer_state] == Bytes{2 * parameters});
  // Each layer keeps its input; from B to W the two linear layers keep the gradients of their outputs.
  CHECK(plain[MemoryItem::activations] == Bytes{5 * (narrow + wide + wide) + 3 * (wide + narrow)});
  CHECK(plain[MemoryItem::workspace] == Bytes{wide + wide});

  spec.recomputed = {false, true, true};
  // Input of the run per micro-batch, both stashes once.
  CHECK(segment_memory(spec, 5)[MemoryItem::activations] == Bytes{5 * (narrow + wide) + (wide + wide)});
  spec.recomputed = {true, false, true};
  CHECK(segment_memory(spec, 5)[MemoryItem::activations] ==
        Bytes{5 * (narrow + wide + wide) + (narrow + wide)});
}

TEST_CASE(
    "layer_bytes: what is kept from B to W is the output gradient and deferred, of layers with parameters") {
  const auto graph = build_model(TransformerSpec{.hidden = 16, .heads = 2, .sequence = 4}).value();
  const RunnableLayers layers = runnable_layers(graph).value();
  for (const auto& layer : layers) {
    const std::int64_t kept = aligned_count<float>(layer->output_count(3)) + layer->deferred_count(3);
    CHECK(layer_bytes(*layer, 3).deferred == Bytes{layer->parameter_count() > 0 ? 4 * kept : 0});
  }
  CHECK(layer_bytes(*layers[1], 3).deferred > layer_bytes(*layers[1], 3).output);
  CHECK(layer_bytes(*layers.back(), 3).deferred == Bytes{0});
}

TEST_CASE("segment: parameters start from the same values however the network is cut") {
  const TransformerSpec transformer{.blocks = 1, .hidden = 8, .heads = 2, .sequence = 5, .vocabulary = 11};
  Trained whole({"whole", transformer, 0, 6, true, true}, OptimizerRule::sgd);
  Trained front({"front", transformer, 0, 2, true, false}, OptimizerRule::sgd);
  Trained back({"back", transformer, 2, 6, false, true}, OptimizerRule::sgd);
  for (std::size_t i = 0; i < 6; ++i) {
    const std::span<float> part = i < 2 ? front.segment.parameters(i) : back.segment.parameters(i - 2);
    CHECK(std::ranges::equal(whole.segment.parameters(i), part));
  }
  // Neighbours start apart.
  CHECK_FALSE(std::ranges::equal(whole.segment.parameters(0).first(8), whole.segment.parameters(1).first(8)));
}

TEST_CASE("segment: every call of a layer stands under the label of its layer, pass and micro-batch") {
  const auto graph = build_model(MlpSpec{.inputs = 4, .width = 4, .layers = 2, .outputs = 4}).value();
  NotingProcessor processor;
  const RunnableLayers layers = runnable_layers(graph, processor).value();
  // relu.0, hidden.1, relu.1 are layers 1, 2 and 3 of the network.
  SegmentSpec spec{.layers = std::span(layers).subspan(1, 3),
                   .first_layer = 1,
                   .batch = 1,
                   .micro_batch_count = 2,
                   .recomputed = {false, false, true}};
  Arena arena = processor.reserve(segment_memory(spec, 2).total(), "test").value();
  Segment segment(spec, processor, arena);
  segment.initialize(1);
  const auto labels_of = [&](const auto& work) {
    processor.labels.clear();
    work();
    return processor.labels;
  };
  using enum LayerPass;
  using Labels = std::vector<LaunchLabel>;
  segment.begin(1);
  CHECK(labels_of([&] { segment.forward(1); }) == Labels{{1, forward, 1}, {2, forward, 1}, {3, forward, 1}});
  CHECK(labels_of([&] { segment.recompute(1); }) == Labels{{3, forward, 1}});
  CHECK(labels_of([&] { segment.backward(1); }) ==
        Labels{
            {3, backward_input, 1}, {2, backward_input, 1}, {2, backward_weight, 1}, {1, backward_input, 1}});
  CHECK(labels_of([&] { segment.step({}, 1); }) == Labels{{2, optimizer, 0}});
  segment.finish(1);
}

TEST_CASE("host processor: fills, copies, adds and steps where it is told, and nowhere else") {
  const auto host = make_host_processor();
  Floats one(6, 7), two(6, 1);
  host->fill(one.data() + 1, 3, 2);
  CHECK(one == Floats{7, 2, 2, 2, 7, 7});
  host->zero(one.data() + 2, 1);
  CHECK(one == Floats{7, 2, 0, 2, 7, 7});
  host->copy(one.data(), two.data() + 1, 3);
  CHECK(two == Floats{1, 7, 2, 0, 1, 1});
  host->add(one.data(), two.data(), 4);
  CHECK(two == Floats{1 + 7, 7 + 2, 2 + 0, 0 + 2, 1, 1});
  host->upload(Floats{3, 4}, two.data() + 4);
  CHECK(two == Floats{8, 9, 2, 2, 3, 4});
  Floats read(2);
  host->download(two.data() + 1, read);
  CHECK(read == Floats{9, 2});
  host->step({.learning_rate = 0.5F}, 1, 2, two.data(), one.data(), nullptr);
  CHECK(two == Floats{8 - 0.5F * 7, 9 - 0.5F * 2, 2, 2, 3, 4});
  CHECK(one == Floats{0, 0, 0, 2, 7, 7});
}

TEST_CASE("runnable_layers: a network of other origin is refused by the name of its layer") {
  const ModelGraph model =
      ModelGraph::make("imported", {Layer{.name = "conv", .kind = "Conv2d"}}, {}, "test").value();
  const auto refused = runnable_layers(model);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message == "layer 'conv' has no runnable form");
}

}  // namespace pipeplan::test
