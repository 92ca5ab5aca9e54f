#include "tutti/kernels/ref/networks.h"

#include <algorithm>
#include <cmath>

#include "tutti/kernels/ref/numbers.h"

namespace tutti::ref {
namespace {

Result<Tensors> bias_add(const AttrMap& attrs, const Tensors& in) {
  if (in[0].rank() < 2 || in[1].rank() != 1) return invalid_argument("ranks");
  const int axis = channel_axis(attrs, in[0]);
  if (in[1].dim(0) != in[0].dim(axis)) return invalid_argument("channels");
  return with_wide(in[0].dtype(), [&](auto wide) -> Tensors {
    using W = decltype(wide);
    std::vector<W> out = load<W>(in[0]);
    const std::vector<W> bias = load<W>(in[1]);
    std::size_t i = 0;
    for (const auto& at : coordinates(in[0].shape())) out[i++] += bias[at[axis]];
    return {store(in[0].dtype(), in[0].shape(), out)};
  });
}

Result<Tensors> bias_add_grad(const AttrMap& attrs, const Tensors& in) {
  if (in[0].rank() < 2) return invalid_argument("rank");
  const int axis = channel_axis(attrs, in[0]);
  return with_wide(in[0].dtype(), [&](auto wide) -> Tensors {
    using W = decltype(wide);
    const std::vector<W> values = load<W>(in[0]);
    std::vector<W> out(static_cast<std::size_t>(in[0].dim(axis)), W(0));
    std::size_t i = 0;
    for (const auto& at : coordinates(in[0].shape())) out[at[axis]] += values[i++];
    return {store(in[0].dtype(), {in[0].dim(axis)}, out)};
  });
}

Result<Tensors> l2_loss(const AttrMap&, const Tensors& in) {
  double sum = 0;
  for (double x : load<double>(in[0])) sum += x * x;
  return Tensors{store<double>(in[0].dtype(), {}, {sum / 2})};
}

// log(sum(e^x)) of one row.
double log_sum_exp(const double* row, std::int64_t n) {
  const double top = *std::max_element(row, row + n);
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += std::exp(row[i] - top);
  return top + std::log(sum);
}

ReferenceFn softmax_reference(bool log) {
  return [log](const AttrMap&, const Tensors& in) -> Result<Tensors> {
    if (in[0].rank() < 1) return invalid_argument("rank");
    std::vector<double> x = load<double>(in[0]);
    const std::int64_t n = in[0].dim(in[0].rank() - 1);
    for (std::size_t r = 0; r < x.size(); r += static_cast<std::size_t>(n)) {
      const double total = log_sum_exp(&x[r], n);
      for (std::int64_t i = 0; i < n; ++i) x[r + i] = log ? x[r + i] - total : std::exp(x[r + i] - total);
    }
    return Tensors{store(in[0].dtype(), in[0].shape(), x)};
  };
}

// Both as matrices of wide numbers; loss = sum of p (logsumexp - x), backprop = softmax - p.
Tensors cross_entropy_of(DType dtype, std::int64_t rows, std::int64_t n, const std::vector<double>& x,
                         const std::vector<double>& p) {
  std::vector<double> loss, backprop;
  for (std::int64_t r = 0; r < rows; ++r) {
    const double total = n == 0 ? 0 : log_sum_exp(&x[r * n], n);
    double sum = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      sum += p[r * n + i] * (total - x[r * n + i]);
      backprop.push_back(std::exp(x[r * n + i] - total) - p[r * n + i]);
    }
    loss.push_back(sum);
  }
  return {store(dtype, {rows}, loss), store(dtype, {rows, n}, backprop)};
}

Result<Tensors> cross_entropy(const AttrMap&, const Tensors& in) {
  TUTTI_ASSIGN_OR_RETURN(Shape shape, broadcast_shapes(in[0].shape(), in[1].shape()));
  if (shape.rank() != 2) return invalid_argument("rank");
  const std::vector<double> logits = load<double>(in[0]), labels = load<double>(in[1]);
  std::vector<double> x, p;
  for (const auto& at : coordinates(shape)) {
    x.push_back(logits[broadcast_position(in[0].shape(), at)]);
    p.push_back(labels[broadcast_position(in[1].shape(), at)]);
  }
  return cross_entropy_of(in[0].dtype(), shape.dim(0), shape.dim(1), x, p);
}

Result<Tensors> sparse_cross_entropy(const AttrMap&, const Tensors& in) {
  if (in[0].rank() != 2 || in[1].rank() != 1 || in[0].dim(0) != in[1].dim(0)) return invalid_argument("shapes");
  const std::int64_t rows = in[0].dim(0), n = in[0].dim(1);
  std::vector<double> p(static_cast<std::size_t>(rows * n), 0);
  std::int64_t r = 0;
  for (Integer label : load<Integer>(in[1])) {
    if (label < 0 || label >= n) return invalid_argument("label out of range");
    p[r++ * n + static_cast<std::int64_t>(label)] = 1;
  }
  return cross_entropy_of(in[0].dtype(), rows, n, load<double>(in[0]), p);
}

Result<Tensors> in_top_k(const AttrMap& attrs, const Tensors& in) {
  if (in[0].rank() != 2 || in[1].rank() != 1 || in[0].dim(0) != in[1].dim(0)) return invalid_argument("shapes");
  const Integer k = in.size() > 2 ? load<Integer>(in[2])[0] : Integer(attr_or(attrs, "k", std::int64_t{1}));
  const std::vector<double> scores = load<double>(in[0]);
  const std::vector<Integer> targets = load<Integer>(in[1]);
  Tensor out(DType::kBool, in[1].shape());
  const std::int64_t n = in[0].dim(1);
  for (std::size_t r = 0; r < targets.size(); ++r) {
    std::vector<double> row(scores.begin() + r * n, scores.begin() + (r + 1) * n);
    const bool valid = targets[r] >= 0 && targets[r] < n;
    const double score = valid ? row[static_cast<std::size_t>(targets[r])] : 0;
    out.data<bool>()[r] = valid && std::count_if(row.begin(), row.end(), [&](double s) { return s > score; }) < k;
  }
  return Tensors{out};
}

}  // namespace

void add_network_references(References& all) {
  all["L2Loss"] = l2_loss;
  all["BiasAdd"] = bias_add;
  all["BiasAddV1"] = bias_add;
  all["BiasAddGrad"] = bias_add_grad;
  all["Softmax"] = softmax_reference(false);
  all["LogSoftmax"] = softmax_reference(true);
  all["SoftmaxCrossEntropyWithLogits"] = cross_entropy;
  all["SparseSoftmaxCrossEntropyWithLogits"] = sparse_cross_entropy;
  all["InTopK"] = in_top_k;
  all["InTopKV2"] = in_top_k;
}

}  // namespace tutti::ref
