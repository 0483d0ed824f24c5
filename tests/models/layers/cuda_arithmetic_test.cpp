// The bodies of the CUDA kernels against the Eigen layers, without a GPU: threads of the CPU stand for those
// of a block. Sizes of teams and rows do not divide each other.

#include <doctest/doctest.h>

#include <barrier>
#include <cmath>
#include <thread>

#include "models/layers/cuda/activation_body.hpp"
#include "models/layers/cuda/attention_body.hpp"
#include "models/layers/cuda/embedding_body.hpp"
#include "models/layers/cuda/layer_norm_body.hpp"
#include "models/layers/cuda/loss_body.hpp"
#include "models/layers/cuda/vector_body.hpp"
#include "models/layers/optimizer.hpp"
#include "models/layers/product.hpp"
#include "tests/models/layers/layer_run.hpp"
#include "tests/models/layers/sample_layers.hpp"

namespace pipeplan::test {
namespace {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

struct TeamMemory {
  explicit TeamMemory(std::int64_t size)
      : barrier(size),
        values(static_cast<std::size_t>(size)),
        flags(new bool[static_cast<std::size_t>(size)]) {}
  std::barrier<> barrier;
  Doubles values;
  std::unique_ptr<bool[]> flags;
};

class ThreadTeam {
 public:
  ThreadTeam(std::int64_t rank, TeamMemory& memory) : rank_(rank), memory_(memory) {}

  [[nodiscard]] std::int64_t rank() const { return rank_; }
  [[nodiscard]] std::int64_t size() const { return std::ssize(memory_.values); }
  template<class T>
  T sum(T value) {
    return joined(value, [](T a, T b) { return a + b; });
  }
  float largest(float value) {
    return joined(value, [](float a, float b) { return std::max(a, b); });
  }
  bool any(bool flag) {
    return joined(flag ? 1.0F : 0.0F, [](float a, float b) { return a + b; }) > 0;
  }
  bool* flags() { return memory_.flags.get(); }
  void barrier() { memory_.barrier.arrive_and_wait(); }

 private:
  template<class T, class Join>
  T joined(T value, Join join) {
    memory_.values[static_cast<std::size_t>(rank_)] = static_cast<double>(value);
    barrier();
    T all = static_cast<T>(memory_.values[0]);
    for (std::size_t i = 1; i < memory_.values.size(); ++i)
      all = join(all, static_cast<T>(memory_.values[i]));
    barrier();
    return all;
  }

  std::int64_t rank_;
  TeamMemory& memory_;
};

template<class Body>
void run_rows(std::int64_t team_size, std::int64_t rows, Body body) {
  TeamMemory memory(team_size);
  std::vector<std::thread> members;
  for (std::int64_t rank = 0; rank < team_size; ++rank)
    members.emplace_back([&memory, rank, rows, body] {
      ThreadTeam team(rank, memory);
      for (std::int64_t row = 0; row < rows; ++row) body(team, row);
    });
  for (std::thread& member : members) member.join();
}

template<class Body>
void run_elements(std::int64_t count, Body body) {
  for (std::int64_t i = 0; i < count; ++i) body(i);
}

// As the kernel of the column sums, in which a thread is a lane of a column.
template<class Value>
void run_column_sums(Value value, Floats& sums, std::int64_t rows) {
  const auto columns = std::ssize(sums);
  for (std::int64_t column = 0; column < columns; ++column) {
    Floats lanes;
    for (int lane = 0; lane < column_lanes; ++lane)
      lanes.push_back(lane_sum(value, rows, columns, column, lane));
    sums[static_cast<std::size_t>(column)] += sum_of_lanes(lanes.data(), 1);
  }
}

constexpr std::int64_t team_sizes[] = {1, 3, 8};

Floats narrow(const Doubles& values) {
  Floats narrowed;
  for (const double value : values) narrowed.push_back(static_cast<float>(value));
  return narrowed;
}

Floats zeros(std::int64_t count) { return Floats(static_cast<std::size_t>(count), 0.0F); }
Floats unknown(std::int64_t count) {
  return Floats(static_cast<std::size_t>(count), std::numeric_limits<float>::quiet_NaN());
}

template<class Scalar>
std::vector<Scalar> slice(const std::vector<Scalar>& values, std::int64_t first, std::int64_t count) {
  return {values.begin() + first, values.begin() + first + count};
}

// In the 2-norm.
double relative_difference(const Floats& seen, const Doubles& wanted) {
  REQUIRE(seen.size() == wanted.size());
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    difference += std::pow(static_cast<double>(seen[i]) - wanted[i], 2);
    size += wanted[i] * wanted[i];
  }
  return std::sqrt(difference / std::max(size, 1e-30));
}

// A few roundings of float, 6e-8 each.
constexpr double tolerance = 1e-6;

// A layer in double, with its inputs and gradients, whose roundings to float the bodies get.
struct Reference {
  Reference(const LayerSpec& spec, std::int64_t batch, std::uint64_t seed) : run(spec, batch), random(seed) {
    parameters = rounded(random_values<double>(run.layer->parameter_buffer_count(), random));
    run.parameters.set(parameters);
    input = rounded(random_input(run, random));
    targets = rounded(random_targets(run, random));
    gradient = rounded(random_values<double>(run.layer->output_count(batch), random));
    output = run.forward(input, targets);
    grad_input = run.backward_input(gradient);
    grad_parameters = run.backward_weight();
  }
  static Doubles rounded(Doubles values) {
    for (double& value : values) value = static_cast<double>(static_cast<float>(value));
    return values;
  }
  [[nodiscard]] std::int64_t rows() const { return run.batch * run.spec.rows_per_sample; }

  LayerRun<double> run;
  Random random;
  Doubles parameters, input, targets, gradient, output, grad_input, grad_parameters;
};

}  // namespace

TEST_CASE("cuda bodies: relu and gelu give what the layers give, forward and backward") {
  for (const LayerKind kind : {LayerKind::relu, LayerKind::gelu}) {
    INFO(spelt(kind), ", seed 1");
    const Reference layer(sample_part(kind, 3, 501, 501), 2, 1);
    const Floats x = narrow(layer.input), dy = narrow(layer.gradient);
    Floats y = unknown(std::ssize(x)), dx = unknown(std::ssize(x));
    if (kind == LayerKind::relu) {
      run_elements(std::ssize(x), Relu{x.data(), y.data()});
      run_elements(std::ssize(x), ReluBackward{x.data(), dy.data(), dx.data()});
    } else {
      run_elements(std::ssize(x), Gelu{x.data(), y.data()});
      run_elements(std::ssize(x), GeluBackward{x.data(), dy.data(), dx.data()});
    }
    CHECK(relative_difference(y, layer.output) < tolerance);
    CHECK(relative_difference(dx, layer.grad_input) < tolerance);
  }
}

TEST_CASE("cuda bodies: gelu far from 0 is 0 or x, its slope 0 or 1") {
  const Floats x = {-1e4F, -30, 30, 1e4F}, dy = {1, 1, 1, 1};
  Floats y = unknown(4), dx = unknown(4);
  run_elements(4, Gelu{x.data(), y.data()});
  run_elements(4, GeluBackward{x.data(), dy.data(), dx.data()});
  CHECK(y == Floats{0, 0, 30, 1e4F});
  CHECK(dx == Floats{0, 0, 1, 1});
}

TEST_CASE("cuda bodies: layer norm gives what the layer gives, forward and backward") {
  for (const std::int64_t team_size : team_sizes)
    for (const std::int64_t width : {1, 2, 7, 65}) {
      INFO("team of ", team_size, ", width ", width, ", seed 2");
      const Reference layer(sample_part(LayerKind::layer_norm, 3, width, width), 2, 2);
      const std::int64_t rows = layer.rows(), offset_offset = aligned_count<double>(width);
      const Floats gain = narrow(slice(layer.parameters, 0, width));
      const Floats offset = narrow(slice(layer.parameters, offset_offset, width));
      const Floats dy = narrow(layer.gradient);
      Floats n = narrow(layer.input), deviations = unknown(rows), y = unknown(rows * width);
      run_rows(team_size, rows,
               LayerNormRow{gain.data(), offset.data(), n.data(), deviations.data(), y.data(), width});
      CHECK(relative_difference(y, layer.output) < tolerance);

      Floats dx = unknown(rows * width);
      run_rows(team_size, rows,
               LayerNormBackwardRow{gain.data(), n.data(), deviations.data(), dy.data(), dx.data(), width});
      // Rows of one or two scalars have nearly no gradient: roundings of dy are all there is to see.
      if (width > 2) CHECK(relative_difference(dx, layer.grad_input) < 3 * tolerance);
      for (const float value : dx) CHECK(std::isfinite(value));

      Floats grad_gain = zeros(width), grad_offset = zeros(width);
      run_column_sums(EntryProduct{dy.data(), n.data()}, grad_gain, rows);
      run_column_sums(Entry{dy.data()}, grad_offset, rows);
      CHECK(relative_difference(grad_gain, slice(layer.grad_parameters, 0, width)) < tolerance);
      CHECK(relative_difference(grad_offset, slice(layer.grad_parameters, offset_offset, width)) < tolerance);
    }
}

TEST_CASE("cuda bodies: column sums take every row once and add to what is there") {
  for (const std::int64_t rows : {1, 31, 32, 33, 100}) {
    INFO(rows, " rows");
    const std::int64_t columns = 3;
    Floats matrix, sums = {100, 200, 300};
    for (std::int64_t i = 0; i < rows * columns; ++i) matrix.push_back(static_cast<float>(i));
    run_column_sums(Entry{matrix.data()}, sums, rows);
    // Column c holds c, c + 3, ... c + 3 (rows - 1): whole numbers, exact in float.
    for (std::int64_t c = 0; c < columns; ++c)
      CHECK(sums[static_cast<std::size_t>(c)] ==
            static_cast<float>(100 * (c + 1) + rows * c + 3 * (rows * (rows - 1) / 2)));
  }
}

TEST_CASE("cuda bodies: embedding and its gradients have the bits of the float layer") {
  for (const std::int64_t team_size : team_sizes)
    for (const std::int64_t vocabulary : {1, 4, 50}) {
      INFO("team of ", team_size, ", vocabulary ", vocabulary, ", seed 3");
      const std::int64_t length = 7, width = 5, batch = 3, rows = batch * length;
      Random random(3);
      LayerRun<float> run(sample_embedding(length, vocabulary, width), batch);
      const Floats ids = random_input(run, random);
      const std::int64_t position_offset = aligned_count<float>(vocabulary * width);
      Floats output = unknown(rows * width);
      run_rows(team_size, rows,
               EmbeddingRow{ids.data(), run.parameters.data(), run.parameters.data() + position_offset,
                            output.data(), length, vocabulary, width});
      CHECK(output == run.forward(ids));

      const Floats gradient = random_values<float>(rows * width, random);
      const Floats before = random_values<float>(run.layer->parameter_buffer_count(), random);
      run.backward_input(gradient);
      run.grad_parameters.set(before);
      Floats grad_parameters = before;
      run_rows(
          team_size, rows,
          TokenGradientRow{ids.data(), gradient.data(), grad_parameters.data(), rows, vocabulary, width});
      run_elements(length * width, PositionGradient{gradient.data(), grad_parameters.data() + position_offset,
                                                    batch, length * width});
      CHECK(grad_parameters == run.backward_weight());
    }
}

TEST_CASE("cuda bodies: cross entropy gives what the layer gives, forward and backward") {
  for (const std::int64_t team_size : team_sizes)
    for (const std::int64_t width : {1, 2, 9, 70}) {
      INFO("team of ", team_size, ", width ", width, ", seed 4");
      const Reference layer(sample_part(LayerKind::cross_entropy, 3, width, 0), 3, 4);
      const std::int64_t rows = layer.rows();
      const Floats targets = narrow(layer.targets), factor = narrow(layer.gradient);
      Floats p = narrow(layer.input), losses = unknown(rows), mean = unknown(1), dx = unknown(rows * width);
      run_rows(team_size, rows, CrossEntropyRow{p.data(), targets.data(), losses.data(), width});
      run_rows(team_size, 1, MeanLoss{losses.data(), mean.data(), rows, rows});
      run_rows(team_size, rows,
               CrossEntropyBackwardRow{p.data(), targets.data(), factor.data(), dx.data(), rows, width});
      CHECK(relative_difference(mean, layer.output) < tolerance);
      CHECK(relative_difference(dx, layer.grad_input) < tolerance);
    }
}

TEST_CASE("cuda bodies: cross entropy of scores far apart stays finite") {
  Floats scores = {-1e30F, 0, 1e30F}, losses = unknown(1);
  const Floats target = {2};
  run_rows(3, 1, CrossEntropyRow{scores.data(), target.data(), losses.data(), 3});
  CHECK(scores == Floats{0, 0, 1});
  CHECK(losses == Floats{0});
}

TEST_CASE("cuda bodies: mean squared error gives what the layer gives, forward and backward") {
  for (const std::int64_t team_size : team_sizes)
    for (const std::int64_t width : {1, 9, 70}) {
      INFO("team of ", team_size, ", width ", width, ", seed 5");
      const Reference layer(sample_part(LayerKind::mean_squared_error, 3, width, 0), 3, 5);
      const std::int64_t rows = layer.rows(), count = rows * width;
      const Floats x = narrow(layer.input), targets = narrow(layer.targets), factor = narrow(layer.gradient);
      Floats losses = unknown(rows), mean = unknown(1), dx = unknown(count);
      run_rows(team_size, rows, SquaredErrorRow{x.data(), targets.data(), losses.data(), width});
      run_rows(team_size, 1, MeanLoss{losses.data(), mean.data(), rows, count});
      run_elements(count, SquaredErrorBackward{x.data(), targets.data(), factor.data(), dx.data(), count});
      CHECK(relative_difference(mean, layer.output) < tolerance);
      CHECK(relative_difference(dx, layer.grad_input) < tolerance);
    }
}

TEST_CASE("cuda bodies: split heads have a place for every scalar of a row, in the documented order") {
  const std::int64_t samples = 2, length = 3, heads = 2, head_width = 5, width = heads * head_width;
  const HeadLayout layout{samples * length, length, width, head_width};
  std::int64_t expected = 0;
  for (std::int64_t part = 0; part < 3; ++part)
    for (std::int64_t sample = 0; sample < samples; ++sample)
      for (std::int64_t head = 0; head < heads; ++head)
        for (std::int64_t row = 0; row < length; ++row)
          for (std::int64_t scalar = 0; scalar < head_width; ++scalar)
            CHECK(layout.split_place(sample * length + row,
                                     static_cast<std::int32_t>(part * width + head * head_width + scalar)) ==
                  expected++);
}

namespace {

// The products between the bodies, one per head of a sample.
void multiply(Transposed transposed, std::int64_t matrices, const float* left, std::int64_t left_columns,
              const float* right, std::int64_t right_columns, float* target, std::int64_t target_columns,
              std::int64_t length) {
  for (std::int64_t i = 0; i < matrices; ++i)
    set_product<float>(transposed, whole_matrix(left + i * length * left_columns, length, left_columns),
                       whole_matrix(right + i * length * right_columns, length, right_columns),
                       whole_matrix(target + i * length * target_columns, length, target_columns));
}

}  // namespace

TEST_CASE("cuda bodies: attention around its products gives what the layer gives, forward and backward") {
  for (const std::int64_t team_size : team_sizes) {
    INFO("team of ", team_size, ", seed 6");
    const std::int64_t length = 11, heads = 3, head_width = 5, width = heads * head_width, batch = 2;
    const Reference layer(sample_attention(length, width, heads), batch, 6);
    const std::int64_t rows = layer.rows(), matrices = batch * heads, part = rows * width;
    const float scale = 1 / std::sqrt(static_cast<float>(head_width));
    const HeadLayout layout{rows, length, width, head_width};
    const Floats x = narrow(layer.input), dy = narrow(layer.gradient);
    Floats qkv = unknown(3 * part), p = unknown(matrices * length * length), y_split = unknown(part);
    Floats y = unknown(part);
    run_rows(team_size, rows, SplitHeadsRow{layout, 3 * width, x.data(), qkv.data()});
    const float *q = qkv.data(), *k = q + part, *v = k + part;
    multiply(Transposed::right, matrices, q, head_width, k, head_width, p.data(), length, length);
    run_rows(team_size, matrices * length, CausalSoftmaxRow{p.data(), scale, length});
    multiply(Transposed::neither, matrices, p.data(), length, v, head_width, y_split.data(), head_width,
             length);
    run_rows(team_size, rows, JoinHeadsRow{layout, width, y_split.data(), y.data()});
    CHECK(relative_difference(y, layer.output) < tolerance);

    Floats dy_split = unknown(part), ds = unknown(matrices * length * length), dqkv = unknown(3 * part);
    Floats dx = unknown(3 * part);
    float *dq = dqkv.data(), *dk = dq + part, *dv = dk + part;
    run_rows(team_size, rows, SplitHeadsRow{layout, width, dy.data(), dy_split.data()});
    multiply(Transposed::left, matrices, p.data(), length, dy_split.data(), head_width, dv, head_width,
             length);
    multiply(Transposed::right, matrices, dy_split.data(), head_width, v, head_width, ds.data(), length,
             length);
    run_rows(team_size, matrices * length, CausalSoftmaxBackwardRow{p.data(), ds.data(), scale, length});
    multiply(Transposed::neither, matrices, ds.data(), length, k, head_width, dq, head_width, length);
    multiply(Transposed::left, matrices, ds.data(), length, q, head_width, dk, head_width, length);
    run_rows(team_size, rows, JoinHeadsRow{layout, 3 * width, dqkv.data(), dx.data()});
    CHECK(relative_difference(dx, layer.grad_input) < tolerance);
  }
}

TEST_CASE("cuda bodies: causal softmax sees no later column, whatever stands there") {
  const std::int64_t length = 5;
  Floats scores = zeros(length * length);
  for (std::int64_t row = 0; row < length; ++row)
    for (std::int64_t column = row + 1; column < length; ++column)
      scores[static_cast<std::size_t>(row * length + column)] = std::numeric_limits<float>::quiet_NaN();
  run_rows(3, length, CausalSoftmaxRow{scores.data(), 1.0F, length});
  for (std::int64_t row = 0; row < length; ++row)
    for (std::int64_t column = 0; column < length; ++column)
      CHECK(scores[static_cast<std::size_t>(row * length + column)] ==
            (column <= row ? 1 / static_cast<float>(row + 1) : 0.0F));
}

TEST_CASE("cuda bodies: optimizer steps are those of the host and leave gradients of 0") {
  const std::int64_t count = 100;
  for (const OptimizerRule rule : {OptimizerRule::sgd, OptimizerRule::momentum, OptimizerRule::adam}) {
    INFO(spelt(rule), ", seed 7");
    Random random(7);
    const Optimizer optimizer{.rule = rule};
    Floats host = random_values<float>(count, random), device = host;
    Floats host_state = zeros(2 * count), state = host_state;
    for (std::int64_t number = 1; number <= 3; ++number) {
      Floats gradients = random_values<float>(count, random), host_gradients = gradients;
      optimizer_step(optimizer, number, count, host.data(), host_gradients.data(), host_state.data());
      float *p = device.data(), *g = gradients.data(), *s = state.data();
      switch (rule) {
        case OptimizerRule::none: break;
        case OptimizerRule::sgd: run_elements(count, SgdStep{{optimizer.learning_rate}, p, g}); break;
        case OptimizerRule::momentum:
          run_elements(count, MomentumStep{{optimizer.learning_rate, optimizer.momentum}, p, g, s});
          break;
        case OptimizerRule::adam:
          run_elements(count, AdamStep{adam_update(optimizer, number), p, g, s, s + count});
          break;
      }
      CHECK(gradients == zeros(count));
    }
    CHECK(relative_difference(device, Doubles(host.begin(), host.end())) < tolerance);
    CHECK(relative_difference(state, Doubles(host_state.begin(), host_state.end())) < tolerance);
  }
}

TEST_CASE("cuda bodies: fill, add and repeat row reach every scalar") {
  Floats place = unknown(5);
  run_elements(5, Fill{place.data(), 2});
  CHECK(place == Floats{2, 2, 2, 2, 2});
  const Floats more = {1, 2, 3, 4, 5};
  run_elements(5, Add{more.data(), place.data()});
  CHECK(place == Floats{3, 4, 5, 6, 7});
  const Floats row = {1, 2, 3};
  Floats matrix = unknown(2 * 3);
  run_rows(2, 2, RepeatRow{row.data(), matrix.data(), 3});
  CHECK(matrix == Floats{1, 2, 3, 1, 2, 3});
}

}  // namespace pipeplan::test
