#include "models/layers/layer.hpp"

#include <fmt/format.h>

#include "models/base/units.hpp"
#include "models/layers/activation.hpp"
#include "models/layers/attention.hpp"
#include "models/layers/embedding.hpp"
#include "models/layers/layer_norm.hpp"
#include "models/layers/linear.hpp"
#include "models/layers/loss.hpp"
#include "models/layers/residual.hpp"

namespace pipeplan {
namespace {

// No matrix of a layer may have more scalars per sample: counts times any batch that fits in memory stay in
// int64.
constexpr std::int64_t largest_matrix = std::int64_t{1} << 40;

// Collects the first thing that is wrong with one layer.
class SpecCheck {
 public:
  SpecCheck(const LayerSpec& spec, const std::string& where) : spec_(spec), where_(where) {}

  void size(const char* name, std::int64_t value) {
    if (value < 1 || value > largest_layer_size)
      refuse(fmt::format("{} is {}, wanted 1 to {}", name, value, largest_layer_size));
  }
  void equal(const char* name, std::int64_t seen, const char* other, std::int64_t wanted) {
    if (seen != wanted) refuse(fmt::format("{} is {}, wanted {}, as {}", name, seen, wanted, other));
  }
  void matrix(const char* name, std::int64_t rows, std::int64_t columns) {
    if (!checked_product(rows, columns, largest_matrix))
      refuse(fmt::format("{} matrix is {} by {}, wanted at most {} scalars", name, rows, columns,
                         largest_matrix));
  }
  void divides(const char* name, std::int64_t divisor, const char* other, std::int64_t whole) {
    if (whole % divisor != 0)
      refuse(fmt::format("{} is {}, wanted a divisor of {}, which is {}", name, divisor, other, whole));
  }
  void refuse(const std::string& message) {
    if (result_) result_ = bad_input(where_, fmt::format("{} layer: {}", spelt(spec_.kind), message));
  }

  // False from the first refusal on: later checks may rest on what it refused.
  [[nodiscard]] bool good() const { return result_.has_value(); }
  [[nodiscard]] const Result<void>& result() const { return result_; }

 private:
  const LayerSpec& spec_;
  const std::string& where_;
  Result<void> result_;
};

void check_attention(const LayerSpec& spec, SpecCheck& check) {
  check.equal("inputs", spec.inputs, "three times the outputs", 3 * spec.outputs);
  check.size("heads", spec.heads);
  if (!check.good()) return;
  check.divides("heads", spec.heads, "outputs", spec.outputs);
  check.matrix("score", spec.rows_per_sample, spec.rows_per_sample);
  if (check.good()) check.matrix("score", spec.rows_per_sample * spec.rows_per_sample, spec.heads);
}

void check_embedding(const LayerSpec& spec, SpecCheck& check) {
  check.equal("inputs", spec.inputs, "a row is one token id", 1);
  check.size("vocabulary", spec.vocabulary);
  if (check.good()) check.matrix("token", spec.vocabulary, spec.outputs);
}

void check_residual(const LayerSpec& spec, SpecCheck& check) {
  if (spec.inner.empty()) check.refuse("inner has no layers, wanted at least one");
  std::int64_t width = spec.inputs;
  for (const LayerSpec& inner : spec.inner) {
    if (is_loss(inner) || inner.kind == LayerKind::embedding)
      check.refuse(
          fmt::format("inner holds a layer of kind {}, which cannot stand there", spelt(inner.kind)));
    check.equal("inner rows_per_sample", inner.rows_per_sample, "outside", spec.rows_per_sample);
    check.equal("inner inputs", inner.inputs, "the layer before gives", width);
    width = inner.outputs;
  }
  check.equal("outputs", spec.outputs, "the last inner layer gives", width);
  check.equal("outputs", spec.outputs, "x is added to them", spec.inputs);
}

void check_kind(const LayerSpec& spec, SpecCheck& check) {
  switch (spec.kind) {
    case LayerKind::linear: return check.matrix("weight", spec.inputs, spec.outputs);
    case LayerKind::embedding: return check_embedding(spec, check);
    case LayerKind::attention: return check_attention(spec, check);
    case LayerKind::residual: return check_residual(spec, check);
    case LayerKind::gelu:
    case LayerKind::relu:
    case LayerKind::layer_norm: return check.equal("outputs", spec.outputs, "the inputs", spec.inputs);
    case LayerKind::cross_entropy:
    case LayerKind::mean_squared_error: return;
  }
}

Result<void> check_spec(const LayerSpec& spec, const std::string& where) {
  SpecCheck check(spec, where);
  check.size("rows_per_sample", spec.rows_per_sample);
  check.size("inputs", spec.inputs);
  if (is_loss(spec))
    check.equal("outputs", spec.outputs, "a loss ends the network", 0);
  else
    check.size("outputs", spec.outputs);
  if (check.good()) check.matrix("input", spec.rows_per_sample, spec.inputs);
  if (check.good()) check.matrix("output", spec.rows_per_sample, spec.outputs);
  if (check.good()) check_kind(spec, check);
  return check.result();
}

template<class Scalar>
Result<std::unique_ptr<RunnableLayer<Scalar>>> make_residual_of(const LayerSpec& spec,
                                                                const std::string& where) {
  std::vector<std::unique_ptr<RunnableLayer<Scalar>>> inner;
  for (std::size_t i = 0; i < spec.inner.size(); ++i) {
    PIPEPLAN_TRY(layer, make_layer<Scalar>(spec.inner[i], fmt::format("{}/inner/{}", where, i)));
    inner.push_back(std::move(layer));
  }
  return make_residual<Scalar>(spec, std::move(inner));
}

}  // namespace

template<class Scalar>
Result<std::unique_ptr<RunnableLayer<Scalar>>> make_layer(const LayerSpec& spec, const std::string& where) {
  PIPEPLAN_CHECK(check_spec(spec, where));
  switch (spec.kind) {
    case LayerKind::embedding: return make_embedding<Scalar>(spec);
    case LayerKind::linear: return make_linear<Scalar>(spec);
    case LayerKind::gelu: return make_gelu<Scalar>(spec);
    case LayerKind::relu: return make_relu<Scalar>(spec);
    case LayerKind::layer_norm: return make_layer_norm<Scalar>(spec);
    case LayerKind::attention: return make_attention<Scalar>(spec);
    case LayerKind::residual: return make_residual_of<Scalar>(spec, where);
    case LayerKind::cross_entropy: return make_cross_entropy<Scalar>(spec);
    case LayerKind::mean_squared_error: return make_mean_squared_error<Scalar>(spec);
  }
  PIPEPLAN_UNREACHABLE("a layer kind without a kernel");
}

template Result<std::unique_ptr<RunnableLayer<float>>> make_layer(const LayerSpec&, const std::string&);
template Result<std::unique_ptr<RunnableLayer<double>>> make_layer(const LayerSpec&, const std::string&);

}  // namespace pipeplan
