#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "models/layers/product.hpp"
#include "tests/models/layers/layer_run.hpp"

namespace pipeplan::test {
namespace {

constexpr Transposed all_ways[] = {Transposed::neither, Transposed::left, Transposed::right};

struct Sizes {
  std::int64_t rows, columns, terms;
};

// Random left and right as a product of these sizes wants them, in rows that are three scalars wider.
struct Problem {
  Problem(Transposed transposed, const Sizes& sizes, Random& random)
      : way(transposed),
        size(sizes),
        left_values(matrix(left_rows(), left_columns(), random)),
        right_values(matrix(right_rows(), right_columns(), random)) {}

  [[nodiscard]] std::int64_t left_rows() const { return way == Transposed::left ? size.terms : size.rows; }
  [[nodiscard]] std::int64_t left_columns() const { return way == Transposed::left ? size.rows : size.terms; }
  [[nodiscard]] std::int64_t right_rows() const {
    return way == Transposed::right ? size.columns : size.terms;
  }
  [[nodiscard]] std::int64_t right_columns() const {
    return way == Transposed::right ? size.terms : size.columns;
  }

  [[nodiscard]] MatrixPart<const double> left() const {
    return {left_values.data(), left_rows(), left_columns(), left_columns() + 3};
  }
  [[nodiscard]] MatrixPart<const double> right() const {
    return {right_values.data(), right_rows(), right_columns(), right_columns() + 3};
  }

  // One element of the product, in a plain loop.
  [[nodiscard]] double element(std::int64_t row, std::int64_t column) const {
    const auto at = [](const MatrixPart<const double>& part, std::int64_t i, std::int64_t j) {
      return part.first[i * part.stride + j];
    };
    double sum = 0;
    for (std::int64_t k = 0; k < size.terms; ++k)
      sum += (way == Transposed::left ? at(left(), k, row) : at(left(), row, k)) *
             (way == Transposed::right ? at(right(), column, k) : at(right(), k, column));
    return sum;
  }

  static std::vector<double> matrix(std::int64_t rows, std::int64_t columns, Random& random) {
    return random_values<double>(rows * (columns + 3), random);
  }

  Transposed way;
  Sizes size;
  std::vector<double> left_values, right_values;
};

double largest_error(const Problem& problem, const MatrixPart<double>& target, double added) {
  double largest = 0;
  for (std::int64_t row = 0; row < target.rows; ++row)
    for (std::int64_t column = 0; column < target.columns; ++column) {
      const double seen = target.first[row * target.stride + column];
      largest = std::max(largest, std::abs(seen - problem.element(row, column) - added));
    }
  return largest;
}

}  // namespace

TEST_CASE("product: every form equals plain loops, in one block and in several, and leaves the rest alone") {
  INFO("seed 18");
  Random random(18);
  for (const Sizes& sizes :
       {Sizes{1, 1, 1}, {3, 5, 7}, {1, 40, 40}, {40, 1, 40}, {530, 30, 270}, {30, 530, 600}})
    for (const Transposed way : all_ways) {
      INFO(sizes.rows, " by ", sizes.columns, " of ", sizes.terms, " terms");
      const Problem problem(way, sizes, random);
      const std::int64_t stride = sizes.columns + 1;
      std::vector<double> values(static_cast<std::size_t>(sizes.rows * stride), 5.0);
      const MatrixPart<double> target{values.data(), sizes.rows, sizes.columns, stride};
      set_product<double>(way, problem.left(), problem.right(), target);
      CHECK(largest_error(problem, target, 0) < 1e-12);
      CHECK(values[static_cast<std::size_t>(sizes.columns)] == 5.0);
    }
}

TEST_CASE("add_product: adds to what is there") {
  INFO("seed 19");
  Random random(19);
  for (const Transposed way : all_ways) {
    const Problem problem(way, {9, 8, 700}, random);
    std::vector<double> values(9 * 8, 2.0);
    const auto target = whole_matrix(values.data(), 9, 8);
    add_product<double>(way, problem.left(), problem.right(), target);
    CHECK(largest_error(problem, target, 2) < 1e-12);
  }
}

}  // namespace pipeplan::test
