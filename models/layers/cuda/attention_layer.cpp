#include <algorithm>
#include <cmath>

#include "models/layers/cuda/cuda_layer.hpp"
#include "models/layers/cuda/kernels.hpp"
#include "models/layers/cuda/product.hpp"

namespace pipeplan {
namespace {

// Heads are split before the products and joined after them, so that one call serves all heads of all samples
// (HeadShape in kernels.hpp). After the forward the stash holds q, k and v split, then the probabilities.
class CudaAttention final : public CudaLayer {
 public:
  CudaAttention(const LayerSpec& spec, std::unique_ptr<FloatLayer> twin, CudaWork& work)
      : CudaLayer(spec, std::move(twin), work), product_(work) {}

  std::int64_t stash_count(std::int64_t batch) const override {
    return probability_offset(batch) + aligned_count<float>(score_count(batch));
  }
  // The backward's: gradients of q, k and v split, then of the scores. The forward takes its first part.
  std::int64_t scratch_count(std::int64_t batch) const override {
    return aligned_count<float>(input_count(batch)) + aligned_count<float>(score_count(batch));
  }

  void forward(std::int64_t batch, const float*, float* stash, float* output, float* scratch) const override {
    if (!ready()) return;
    launch("split heads", launch_split_heads, shape(batch, 3), stash, scratch);
    copy(scratch, stash, input_count(batch));
    const float* q = stash;
    float* p = stash + probability_offset(batch);
    product_.set(Transposed::right, head(q), head(key(q, batch)), scores(p), head_count(batch));
    launch("causal softmax", launch_causal_softmax, head_count(batch), length(), scale(), p);
    product_.set(Transposed::neither, scores<const float>(p), head(value(q, batch)), head(scratch),
                 head_count(batch));
    launch("join heads", launch_join_heads, shape(batch, 1), scratch, output);
  }

  // grad_input is first the place of the output's gradient, split.
  void backward_input(std::int64_t batch, const float*, const float* stash, const float* grad_output,
                      float* grad_input, float*, float* scratch) const override {
    if (grad_input == nullptr || !ready()) return;
    const float* p = stash + probability_offset(batch);
    const float* grad = grad_input;
    float* grad_scores = scratch + aligned_count<float>(input_count(batch));
    launch("split heads", launch_split_heads, shape(batch, 1), grad_output, grad_input);
    product_.set(Transposed::left, scores(p), head(grad), head(value(scratch, batch)), head_count(batch));
    product_.set(Transposed::right, head(grad), head(value(stash, batch)), scores(grad_scores),
                 head_count(batch));
    launch("causal softmax backward", launch_causal_softmax_backward, head_count(batch), length(), scale(), p,
           grad_scores);
    backward_scores(batch, grad_scores, stash, scratch);
    launch("join heads", launch_join_heads, shape(batch, 3), scratch, grad_input);
  }

 private:
  void backward_scores(std::int64_t batch, const float* grad_scores, const float* stash,
                       float* grad_split) const {
    product_.set(Transposed::neither, scores(grad_scores), head(key(stash, batch)), head(grad_split),
                 head_count(batch));
    product_.set(Transposed::left, scores(grad_scores), head(stash), head(key(grad_split, batch)),
                 head_count(batch));
  }

  [[nodiscard]] std::int64_t length() const { return spec().rows_per_sample; }
  [[nodiscard]] std::int64_t width() const { return spec().outputs; }
  [[nodiscard]] std::int64_t head_width() const { return width() / spec().heads; }
  [[nodiscard]] std::int64_t head_count(std::int64_t batch) const { return batch * spec().heads; }
  [[nodiscard]] float scale() const { return 1 / std::sqrt(static_cast<float>(head_width())); }
  [[nodiscard]] std::int64_t score_count(std::int64_t batch) const {
    return head_count(batch) * length() * length();
  }
  [[nodiscard]] std::int64_t probability_offset(std::int64_t batch) const {
    return aligned_count<float>(input_count(batch));
  }
  [[nodiscard]] HeadShape shape(std::int64_t batch, std::int64_t parts) const {
    return {.rows = rows(batch),
            .length = length(),
            .width = width(),
            .head_width = head_width(),
            .parts = parts};
  }

  // Parts of q, k and v split.
  template<class Value>
  Value* key(Value* split, std::int64_t batch) const {
    return split + output_count(batch);
  }
  template<class Value>
  Value* value(Value* split, std::int64_t batch) const {
    return split + 2 * output_count(batch);
  }
  // The first head of a part, and the first matrix of scores.
  template<class Value>
  MatrixPart<Value> head(Value* first) const {
    return whole_matrix(first, length(), head_width());
  }
  template<class Value>
  MatrixPart<Value> scores(Value* first) const {
    return whole_matrix(first, length(), length());
  }

  CudaProduct product_;
};

}  // namespace

std::unique_ptr<FloatLayer> make_cuda_attention(const LayerSpec& spec, std::unique_ptr<FloatLayer> twin,
                                                CudaWork& work) {
  return std::make_unique<CudaAttention>(spec, std::move(twin), work);
}

}  // namespace pipeplan
