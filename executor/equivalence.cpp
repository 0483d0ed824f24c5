// Do two runs of the same training agree: bit for bit, or within a distance per tensor.

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "executor/executor.hpp"

namespace pipeplan {
namespace {

// The first place where two vectors of one size differ in any bit, as text; empty if they are equal.
std::string first_difference(const std::string& what, const std::vector<float>& a,
                             const std::vector<float>& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i]))
      return fmt::format("{}, element {}: {} and {}", what, i, a[i], b[i]);
  return {};
}

// ||a - b|| / ||b|| (2-norm); 1 where only b is 0.
double distance_fraction(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double wanted = static_cast<double>(b[i]), off = static_cast<double>(a[i]) - wanted;
    difference += off * off;
    norm += wanted * wanted;
  }
  if (difference == 0) return 0;
  return norm == 0 ? 1 : std::sqrt(difference / norm);
}

// Compares tensor by tensor and keeps the first that is too far.
class TensorComparison {
 public:
  explicit TensorComparison(const Closeness& closeness) : closeness_(closeness) {}

  void compare(const std::string& what, const std::vector<float>& a, const std::vector<float>& b) {
    if (a.size() != b.size()) return differ(fmt::format("{}: {} and {} elements", what, a.size(), b.size()));
    const std::string bit = first_difference(what, a, b);
    if (bit.empty()) return;
    const double distance = distance_fraction(a, b);
    const double allowed = closeness_.largest_distance_fraction;
    if (!(distance <= found_.largest_distance_fraction)) found_.largest_distance_fraction = distance;
    if (allowed == 0) return differ(bit);
    if (!(distance <= allowed))  // which a NaN is not either
      differ(fmt::format("{}: relative distance {:.2e}, allowed {:.0e}", what, distance, allowed));
  }

  void differ(std::string difference) {
    if (found_.equal) found_.difference = std::move(difference);
    found_.equal = false;
  }

  Equivalence take() { return std::move(found_); }

 private:
  const Closeness& closeness_;
  Equivalence found_;
};

}  // namespace

Equivalence compare_training(const TrainingRecord& pipelined, const TrainingRecord& single,
                             const ModelGraph& model, const Closeness& closeness) {
  TensorComparison comparison(closeness);
  const std::size_t layers = model.layers().size();
  comparison.compare("losses", pipelined.losses, single.losses);
  for (const auto* record : {&pipelined, &single}) {
    if (record->gradients.size() == layers && record->parameters.size() == layers) continue;
    comparison.differ(fmt::format("{} layers of gradients and {} of parameters, wanted {} of each",
                                  record->gradients.size(), record->parameters.size(), layers));
    return comparison.take();
  }
  for (const LayerId layer : ids<LayerId>(layers)) {
    const std::string& name = model.layers()[layer].name;
    comparison.compare(fmt::format("gradient of {}", name), pipelined.gradients[layer],
                       single.gradients[layer]);
    if (closeness.parameters)
      comparison.compare(fmt::format("parameters of {}", name), pipelined.parameters[layer],
                         single.parameters[layer]);
  }
  return comparison.take();
}

}  // namespace pipeplan
