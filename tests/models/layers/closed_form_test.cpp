#include <doctest/doctest.h>

#include <cmath>
#include <numeric>

#include "tests/models/layers/layer_run.hpp"
#include "tests/models/layers/sample_layers.hpp"

namespace pipeplan::test {
namespace {

using Values = std::vector<double>;

Values row_of(const Values& matrix, std::int64_t row, std::int64_t width) {
  return {matrix.begin() + row * width, matrix.begin() + (row + 1) * width};
}

double mean(const Values& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double mean_of_squares(const Values& values) {
  return std::inner_product(values.begin(), values.end(), values.begin(), 0.0) /
         static_cast<double>(values.size());
}

doctest::Approx near(double value) { return doctest::Approx(value).epsilon(1e-12).scale(1); }

}  // namespace

TEST_CASE("linear: rows times weights plus bias, on numbers worked out by hand") {
  LayerRun<double> run(sample_part(LayerKind::linear, 2, 2, 3), 1);
  run.parameters.set({1, 2, 3,  //
                      4, 5, 6});
  run.parameters.set({10, 20, 30}, aligned_count<double>(2 * 3));
  CHECK(run.forward({1, 2, 3, 4}) == Values{1 * 1 + 2 * 4 + 10, 1 * 2 + 2 * 5 + 20, 1 * 3 + 2 * 6 + 30,
                                            3 * 1 + 4 * 4 + 10, 3 * 2 + 4 * 5 + 20, 3 * 3 + 4 * 6 + 30});
}

TEST_CASE("relu: negative inputs become 0 and pass no gradient, and neither does 0") {
  LayerRun<double> run(sample_part(LayerKind::relu, 1, 3, 3), 1);
  CHECK(run.forward({-2, 0, 3}) == Values{0, 0, 3});
  CHECK(run.backward_input({5, 6, 7}) == Values{0, 0, 7});
}

TEST_CASE("gelu: equals the tanh form of Hendrycks and Gimpel") {
  Values x;
  for (int i = -80; i <= 80; ++i) x.push_back(i / 10.0);
  LayerRun<double> run(sample_part(LayerKind::gelu, 1, 161, 161), 1);
  const Values y = run.forward(x);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double u = std::sqrt(2 / std::acos(-1.0)) * (x[i] + 0.044715 * std::pow(x[i], 3));
    CHECK(y[i] == near(0.5 * x[i] * (1 + std::tanh(u))));
  }
}

TEST_CASE("gelu: inputs far from 0 stay finite in float") {
  LayerRun<float> run(sample_part(LayerKind::gelu, 1, 4, 4), 1);
  CHECK(run.forward({-1e6F, -100.F, 100.F, 1e6F}) == std::vector<float>{0, 0, 100.F, 1e6F});
  CHECK(run.backward_input({1, 1, 1, 1}) == std::vector<float>{0, 0, 1, 1});
}

TEST_CASE("layer_norm: every row has mean 0 and variance v / (v + 1e-5)") {
  constexpr std::int64_t rows = 4, width = 33;
  INFO("seed 4");
  Random random(4);
  LayerRun<double> run(sample_part(LayerKind::layer_norm, rows, width, width), 1);
  const Values x = random_values<double>(rows * width, random);
  const Values y = run.forward(x);
  for (std::int64_t row = 0; row < rows; ++row) {
    const Values before = row_of(x, row, width), after = row_of(y, row, width);
    const double variance = mean_of_squares(before) - mean(before) * mean(before);
    CHECK(mean(after) == near(0));
    CHECK(mean_of_squares(after) == near(variance / (variance + 1e-5)));
  }
}

TEST_CASE("layer_norm: a row of equal values becomes the offset") {
  LayerRun<double> run(sample_part(LayerKind::layer_norm, 1, 3, 3), 1);
  run.parameters.set({1, 2, 3}, aligned_count<double>(3));
  CHECK(run.forward({7, 7, 7}) == Values{1, 2, 3});
}

TEST_CASE("embedding: a row is the vector of its token plus that of its place") {
  LayerRun<double> run(sample_embedding(2, 3, 2), 2);
  run.parameters.set({1, 2, 3, 4, 5, 6});
  run.parameters.set({10, 20, 30, 40}, aligned_count<double>(3 * 2));
  const Values y = run.forward({2, 0, 1, 1});
  CHECK(y == Values{5 + 10, 6 + 20, 1 + 30, 2 + 40, 3 + 10, 4 + 20, 3 + 30, 4 + 40});
}

TEST_CASE("attention: with equal keys each row is the mean of the values so far") {
  constexpr std::int64_t rows = 4;
  LayerRun<double> run(sample_attention(rows, 1, 1), 1);
  // q, k, v of each row; values are powers of two, so each mean tells which rows are in it.
  const Values y = run.forward({3, 1, 1, -2, 1, 2, 5, 1, 4, 7, 1, 8});
  CHECK(y[0] == near(1));
  CHECK(y[1] == near((1 + 2) / 2.0));
  CHECK(y[2] == near((1 + 2 + 4) / 3.0));
  CHECK(y[3] == near((1 + 2 + 4 + 8) / 4.0));
}

TEST_CASE("attention: weights are exp(q k / sqrt(d)) over their sum") {
  LayerRun<double> run(sample_attention(2, 4, 1), 1);
  const Values q = {1, 2, 3, 4}, k0 = {0.1, 0.2, 0.3, 0.4}, k1 = {0.4, 0.3, 0.2, 0.1};
  Values input(2 * 3 * 4, 0);
  std::copy(k0.begin(), k0.end(), input.begin() + 4);
  std::copy(q.begin(), q.end(), input.begin() + 12);
  std::copy(k1.begin(), k1.end(), input.begin() + 12 + 4);
  input[8] = 1;  // v of row 0, first column
  const double score0 = (1 * 0.1 + 2 * 0.2 + 3 * 0.3 + 4 * 0.4) / std::sqrt(4.0);
  const double score1 = (1 * 0.4 + 2 * 0.3 + 3 * 0.2 + 4 * 0.1) / std::sqrt(4.0);
  CHECK(run.forward(input)[4] == near(std::exp(score0) / (std::exp(score0) + std::exp(score1))));
}

TEST_CASE("attention block: changing row t changes no output before t, and the output at t") {
  constexpr std::int64_t rows = 6, width = 8;
  INFO("seed 8");
  Random random(8);
  LayerRun<double> run(sample_attention_block(rows, width, 2), 1);
  const Values input = random_values<double>(rows * width, random);
  const Values before = run.forward(input);
  for (std::int64_t t = 0; t < rows; ++t) {
    Values changed = input;
    changed[static_cast<std::size_t>(t * width)] += 1;
    const Values after = run.forward(changed);
    for (std::int64_t row = 0; row < rows; ++row) {
      const bool same = row_of(before, row, width) == row_of(after, row, width);
      CHECK(same == (row < t));
    }
  }
}

TEST_CASE("cross_entropy: equal scores of V classes cost log(V), whatever the class") {
  LayerRun<double> run(sample_part(LayerKind::cross_entropy, 2, 10, 0), 2);
  CHECK(run.forward(Values(2 * 2 * 10, 3.5), {0, 4, 9, 4})[0] == near(std::log(10.0)));
}

TEST_CASE("cross_entropy: two classes cost log(1 + exp(difference)), averaged over rows") {
  LayerRun<double> run(sample_part(LayerKind::cross_entropy, 2, 2, 0), 1);
  const double right = std::log(1 + std::exp(1.0 - 4.0));
  const double wrong = std::log(1 + std::exp(4.0 - 1.0));
  CHECK(run.forward({4, 1, 4, 1}, {0, 1})[0] == near((right + wrong) / 2));
}

TEST_CASE("cross_entropy: scores of a thousand do not overflow in float") {
  LayerRun<float> run(sample_part(LayerKind::cross_entropy, 1, 2, 0), 1);
  CHECK(run.forward({1000, 0}, {0})[0] == 0);
  CHECK(run.forward({1000, 0}, {1})[0] == 1000);
}

TEST_CASE("mean_squared_error: equal is 0, and a difference of d everywhere is d times d") {
  LayerRun<double> run(sample_part(LayerKind::mean_squared_error, 2, 3, 0), 1);
  const Values x = {1, 2, 3, 4, 5, 6};
  CHECK(run.forward(x, x)[0] == 0);
  CHECK(run.forward(x, {1 - 3, 2 - 3, 3 - 3, 4 - 3, 5 - 3, 6 - 3})[0] == 3 * 3);
}

}  // namespace pipeplan::test
