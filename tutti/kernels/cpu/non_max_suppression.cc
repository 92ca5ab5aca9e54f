// Keeping the best of boxes that overlap: greedily, the highest score first.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <queue>
#include <vector>

#include "tutti/kernels/cpu/bounding_boxes.h"
#include "tutti/kernels/cpu/convert.h"
#include "tutti/kernels/cpu/element.h"

namespace tutti::cpu {
namespace {

// Of half, where scores and thresholds have its type: overlaps and what is made of scores. TensorFlow computes areas in
// float, and overlaps, too, where thresholds may be of another type; which box survives hangs on it.
struct Rounding {
  bool to_half = false;
  float operator()(float x) const { return to_half ? static_cast<float>(Half(x)) : x; }
};

struct Limits {
  std::int64_t count = 0;
  float overlap = 0.5f;
  float score = std::numeric_limits<float>::lowest();
  float sigma = 0;  // over 0: overlaps lower scores instead of ending boxes
};

struct Chosen {
  std::vector<std::int32_t> indices;
  std::vector<float> scores;
};

struct Contender {
  std::int32_t box;
  float score;
  std::int64_t compared;  // with how many of the chosen its score has been weighed
};

struct IsWorse {
  bool operator()(const Contender& a, const Contender& b) const {
    return a.score < b.score || (a.score == b.score && a.box > b.box);
  }
};

// `overlap(i, j)` of boxes.
template <typename Overlap>
Chosen choose(std::span<const float> scores, const Limits& limits, Rounding round, const Overlap& overlap) {
  std::priority_queue<Contender, std::vector<Contender>, IsWorse> contenders;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (scores[i] > limits.score) contenders.push({static_cast<std::int32_t>(i), scores[i], 0});
  }
  const bool soft = limits.sigma > 0;
  const float scale = soft ? round(-0.5f / limits.sigma) : 0;
  Chosen chosen;
  while (std::ssize(chosen.indices) < limits.count && !contenders.empty()) {
    Contender next = contenders.top();
    contenders.pop();
    const float before = next.score;
    bool ended = false;
    for (std::int64_t j = std::ssize(chosen.indices) - 1; j >= next.compared && !ended; --j) {
      const float shared = overlap(next.box, chosen.indices[static_cast<std::size_t>(j)]);
      if (soft) {
        next.score = round(next.score * round(std::exp(round(round(scale * shared) * shared))));
      } else {
        ended = shared > limits.overlap;
      }
      if (next.score <= limits.score) break;
    }
    next.compared = std::ssize(chosen.indices);
    if (ended) continue;
    if (next.score == before) {
      chosen.indices.push_back(next.box);
      chosen.scores.push_back(next.score);
    } else if (next.score > limits.score) {
      contenders.push(next);
    }
  }
  return chosen;
}

// Intersection over union; corners may come in any order.
float intersection_over_union(const float* a, const float* b, Rounding round) {
  const float a_top = std::min(a[0], a[2]), a_bottom = std::max(a[0], a[2]);
  const float a_left = std::min(a[1], a[3]), a_right = std::max(a[1], a[3]);
  const float b_top = std::min(b[0], b[2]), b_bottom = std::max(b[0], b[2]);
  const float b_left = std::min(b[1], b[3]), b_right = std::max(b[1], b[3]);
  const auto area = [](float height, float width) { return height * width; };
  const float a_area = area(a_bottom - a_top, a_right - a_left);
  const float b_area = area(b_bottom - b_top, b_right - b_left);
  if (a_area <= 0 || b_area <= 0) return 0;
  const float common = area(std::max(0.0f, std::min(a_bottom, b_bottom) - std::max(a_top, b_top)),
                            std::max(0.0f, std::min(a_right, b_right) - std::max(a_left, b_left)));
  return round(common / (a_area + b_area - common));
}

Status check_scores(const Tensor& scores, std::int64_t boxes) {
  if (scores.rank() != 1) return invalid_argument("scores must be 1-D, got ", scores.shape());
  if (scores.dim(0) == boxes) return {};
  return invalid_argument("scores has incompatible shape: ", scores.shape(), " for ", boxes, " boxes");
}

// A threshold of half or float.
Result<float> read_threshold(const Tensor& tensor, std::string_view name) {
  if (tensor.rank() != 0) return invalid_argument(name, " must be 0-D, got ", tensor.shape());
  return tensor.dtype() == DType::kHalf ? static_cast<float>(tensor.scalar<Half>()) : tensor.scalar<float>();
}

Result<std::int64_t> read_count(const Tensor& tensor) {
  if (tensor.rank() != 0) return invalid_argument("max_output_size must be 0-D, got ", tensor.shape());
  const std::int64_t count = tensor.scalar<std::int32_t>();
  if (count < 0) return invalid_argument("output size must be non-negative, got ", count);
  return count;
}

Status check_overlap(float threshold) {
  if (threshold >= 0 && threshold <= 1) return {};
  return invalid_argument("iou_threshold must be in [0, 1], got ", threshold);
}

// With zeros behind them up to `size`.
Status give_indices(KernelContext& ctx, const std::vector<std::int32_t>& indices, std::int64_t size) {
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, Shape{size}));
  std::int32_t* to = out->data<std::int32_t>();
  std::fill(std::copy(indices.begin(), indices.end(), to), to + size, 0);
  return {};
}

class NonMaxSuppression : public Kernel {
 public:
  explicit NonMaxSuppression(const KernelInit& init) {
    if (const auto it = init.attrs.find("iou_threshold"); it != init.attrs.end()) {
      overlap_ = *it->second.get<float>();
    }
    if (const auto it = init.attrs.find("pad_to_max_output_size"); it != init.attrs.end()) {
      pad_ = *it->second.get<bool>();
    }
  }

  Status compute(KernelContext& ctx) override {
    const Tensor& boxes = ctx.input(0);
    if (boxes.rank() != 2) return invalid_argument("boxes must be 2-D, got ", boxes.shape());
    if (boxes.dim(1) != 4) return invalid_argument("boxes must have 4 columns, got ", boxes.shape());
    if (boxes.dim(0) > std::numeric_limits<std::int32_t>::max()) {
      return invalid_argument("too many boxes: ", boxes.shape());
    }
    TUTTI_ASSIGN_OR_RETURN(const Limits limits, read_limits(ctx));
    TUTTI_RETURN_IF_ERROR(check_scores(ctx.input(1), boxes.dim(0)));
    TUTTI_ASSIGN_OR_RETURN(const Tensor corners, widened(ctx, boxes, DType::kFloat));
    TUTTI_ASSIGN_OR_RETURN(const Tensor scores, widened(ctx, ctx.input(1), DType::kFloat));
    const Rounding round{boxes.dtype() == DType::kHalf && ctx.num_outputs() == 3};
    const float* data = corners.num_elements() > 0 ? corners.data<float>() : nullptr;
    const Chosen chosen = choose(scores.flat<float>(), limits, round, [&](std::int32_t i, std::int32_t j) {
      return intersection_over_union(data + std::int64_t{4} * i, data + std::int64_t{4} * j, round);
    });
    return give(ctx, chosen, limits.count);
  }

 private:
  Result<Limits> read_limits(KernelContext& ctx) const {
    Limits limits;
    TUTTI_ASSIGN_OR_RETURN(limits.count, read_count(ctx.input(2)));
    limits.overlap = overlap_;
    if (ctx.num_inputs() > 3) {
      TUTTI_ASSIGN_OR_RETURN(limits.overlap, read_threshold(ctx.input(3), "iou_threshold"));
    }
    TUTTI_RETURN_IF_ERROR(check_overlap(limits.overlap));
    if (ctx.num_inputs() > 4) {
      TUTTI_ASSIGN_OR_RETURN(limits.score, read_threshold(ctx.input(4), "score_threshold"));
    }
    if (ctx.num_inputs() > 5) {
      TUTTI_ASSIGN_OR_RETURN(limits.sigma, read_threshold(ctx.input(5), "soft_nms_sigma"));
      if (!(limits.sigma >= 0)) return invalid_argument("soft_nms_sigma_val must be non-negative, got ", limits.sigma);
    }
    return limits;
  }

  // Indices; then, where the op has them, scores and how many of both there are.
  Status give(KernelContext& ctx, const Chosen& chosen, std::int64_t count) const {
    const std::int64_t found = std::ssize(chosen.indices);
    const std::int64_t size = pad_ ? count : found;
    TUTTI_RETURN_IF_ERROR(give_indices(ctx, chosen.indices, size));
    if (ctx.num_outputs() == 3) {
      TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(1, Shape{size}));
      if (size > 0) zero_elements(out->dtype(), out->raw(), size);
      find_convert(DType::kFloat, out->dtype())(chosen.scores.data(), out->raw(), found);
    }
    if (ctx.num_outputs() > 1) {
      TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(ctx.num_outputs() - 1, Shape{}));
      *out->data<std::int32_t>() = static_cast<std::int32_t>(found);
    }
    return {};
  }

  float overlap_ = 0.5f;
  bool pad_ = false;
};

}  // namespace

KernelFactory non_max_suppression_kernel() { return kernel_of<NonMaxSuppression>(); }

Status non_max_suppression_with_overlaps(KernelContext& ctx) {
  const Tensor& overlaps = ctx.input(0);
  if (overlaps.rank() != 2) return invalid_argument("overlaps must be 2-D, got ", overlaps.shape());
  const std::int64_t n = overlaps.dim(0);
  if (overlaps.dim(1) != n || n > std::numeric_limits<std::int32_t>::max()) {
    return invalid_argument("overlaps must be square, got ", overlaps.shape());
  }
  TUTTI_RETURN_IF_ERROR(check_scores(ctx.input(1), n));
  Limits limits;
  TUTTI_ASSIGN_OR_RETURN(limits.count, read_count(ctx.input(2)));
  TUTTI_ASSIGN_OR_RETURN(limits.overlap, read_threshold(ctx.input(3), "overlap_threshold"));
  TUTTI_ASSIGN_OR_RETURN(limits.score, read_threshold(ctx.input(4), "score_threshold"));
  const float* data = n > 0 ? overlaps.data<float>() : nullptr;
  const Chosen chosen =
      choose(ctx.input(1).flat<float>(), limits, {}, [&](std::int32_t i, std::int32_t j) { return data[i * n + j]; });
  return give_indices(ctx, chosen.indices, std::ssize(chosen.indices));
}

}  // namespace tutti::cpu
