// Samples of ops that arrange, sort and multiply along dimensions.
#include "tests/ops/layout_samples.h"

#include <algorithm>
#include <random>
#include <span>
#include <utility>

#include "tutti/ops/builders.h"

namespace tutti::testing {
namespace {

using Kind = SampleInput::Kind;
using Ints = std::vector<std::int64_t>;

class LayoutSamples {
 public:
  SampleInput value(const Shape& shape, double low = -2, double high = 2) {
    Tensor tensor(DType::kDouble, shape);
    std::uniform_real_distribution<double> uniform(low, high);
    for (double& element : tensor.flat<double>()) element = uniform(random_);
    return {tensor, Kind::kValue};
  }
  // Far from each other: for maxima.
  SampleInput distinct(const Shape& shape) {
    Tensor tensor(DType::kDouble, shape);
    std::span<double> flat = tensor.flat<double>();
    for (std::size_t i = 0; i < flat.size(); ++i) flat[i] = 0.37 * static_cast<double>(i) - 1;
    std::shuffle(flat.begin(), flat.end(), random_);
    return {tensor, Kind::kValue};
  }
  static SampleInput ints(const Shape& shape, const std::vector<std::int32_t>& values) {
    return {Tensor::of<std::int32_t>(shape, values)};
  }
  static SampleInput ints(const std::vector<std::int32_t>& values) {
    return ints(Shape{static_cast<std::int64_t>(values.size())}, values);
  }
  static SampleInput scalar(std::int32_t value) { return {Tensor::scalar(value)}; }
  static SampleInput fixed(SampleInput input) {
    input.kind = Kind::kFixed;
    return input;
  }

  OpSample& add(std::string op, std::vector<SampleInput> inputs, AttrMap attrs = {}) {
    samples_.push_back({.op = std::move(op), .attrs = std::move(attrs), .inputs = std::move(inputs)});
    return samples_.back();
  }
  std::vector<OpSample> take() { return std::move(samples_); }

 private:
  std::mt19937 random_{20241115};
  std::vector<OpSample> samples_;
};

void add_einsums(LayoutSamples& s) {
  const auto two = [&](const char* equation, const Shape& x, const Shape& y) {
    s.add("Einsum", {s.value(x), s.value(y)}, {{"equation", equation}});
  };
  const auto one = [&](const char* equation, const Shape& x) {
    s.add("Einsum", {s.value(x)}, {{"equation", equation}});
  };
  two("ij,jk->ik", {2, 3}, {3, 4});
  two("abc,cde->abde", {2, 2, 3}, {3, 2, 2});
  two("aecd,abcd->acbe", {2, 3, 2, 2}, {2, 2, 2, 2});
  two("...ij,...jk->...ik", {2, 2, 3}, {1, 3, 2});
  two("...ij,jk->i...k", {2, 2, 3}, {3, 2});
  two("abc,cd->ad", {2, 3, 2}, {2, 2});  // b is in one operand alone
  two("ab,ab->ab", {2, 3}, {2, 3});
  two("aab,bc->ca", {2, 2, 3}, {3, 2});
  two("...a,b->b...", {2, 3}, {2});
  one("ij->ji", {2, 3});
  one("iij->j", {2, 2, 3});
  one("i->ii", {3});
  one("ab...->b...", {2, 3, 2});
  one("a...b->...", {2, 3, 2});
}

void add_batch_products(LayoutSamples& s) {
  for (const bool x : {false, true}) {
    for (const bool y : {false, true}) {
      s.add("BatchMatMulV3", {s.value(x ? Shape{2, 3, 2} : Shape{2, 2, 3}), s.value(y ? Shape{4, 3} : Shape{3, 4})},
            {{"adj_x", x}, {"adj_y", y}, {"Tout", DType::kDouble}});
    }
  }
}

void add_picks(LayoutSamples& s) {
  s.add("TopK", {s.distinct({2, 5})}, {{"k", 3}});
  s.add("TopKV2", {s.distinct({2, 2, 4}), LayoutSamples::scalar(2)});
  s.add("TopKV2", {s.distinct({5}), LayoutSamples::scalar(5)}, {{"index_type", DType::kInt64}});
  s.add("TensorScatterUpdate", {s.value({4, 2}), LayoutSamples::ints({2, 1}, {3, 1}), s.value({2, 2})});
  for (const char* op : {"TensorScatterAdd", "TensorScatterSub"}) {
    s.add(op, {s.value({4, 2}), LayoutSamples::ints({3, 1}, {3, 1, 3}), s.value({3, 2})});
    s.add(op, {s.value({2, 3}), LayoutSamples::ints({2, 2}, {0, 1, 1, 2}), s.value({2})});
  }
  for (const char* op : {"TensorScatterMin", "TensorScatterMax"}) {
    const SampleInput all = s.distinct({7, 2});
    const auto rows = [&](std::int64_t from, std::int64_t to) {
      return SampleInput{all.value.slice(from, to).clone().value_or_throw(), Kind::kValue};
    };
    s.add(op, {rows(0, 4), LayoutSamples::ints({3, 1}, {3, 1, 3}), rows(4, 7)});
  }
}

void add_diagonals(LayoutSamples& s) {
  s.add("MatrixBandPart", {s.value({2, 3, 4}), LayoutSamples::scalar(1), LayoutSamples::scalar(-1)});
  s.add("MatrixDiag", {s.value({2, 3})});
  s.add("MatrixDiagPart", {s.value({2, 3, 4})});
  s.add("MatrixSetDiag", {s.value({2, 3, 4}), s.value({2, 3})});
  for (const std::string version : {"V2", "V3"}) {
    const SampleInput zero = LayoutSamples::fixed(s.value({}));
    const SampleInput open = LayoutSamples::scalar(-1);
    s.add("MatrixDiag" + version, {s.value({2, 3}), LayoutSamples::scalar(1), open, open, zero});
    s.add("MatrixDiag" + version,
          {s.value({3, 2}), LayoutSamples::ints({-1, 1}), LayoutSamples::scalar(2), LayoutSamples::scalar(3), zero});
    s.add("MatrixDiagPart" + version, {s.value({2, 3, 4}), LayoutSamples::scalar(-1), zero});
    s.add("MatrixDiagPart" + version, {s.value({3, 4}), LayoutSamples::ints({-2, 2}), zero});
    s.add("MatrixSetDiag" + version, {s.value({3, 4}), s.value({2}), LayoutSamples::ints({2})});
    s.add("MatrixSetDiag" + version, {s.value({3, 3}), s.value({3, 3}), LayoutSamples::ints({-1, 1})});
  }
  s.add("MatrixDiagPartV3", {s.value({4, 3}), LayoutSamples::ints({-2, 1}), LayoutSamples::fixed(s.value({}))},
        {{"align", "LEFT_RIGHT"}});
  s.add("Diag", {s.value({2, 2})});
  s.add("DiagPart", {s.value({2, 3, 2, 3})});
}

void add_sequences(LayoutSamples& s) {
  for (const char* mode : {"REFLECT", "SYMMETRIC"}) {
    s.add("MirrorPad", {s.value({2, 3}), LayoutSamples::ints({2, 2}, {1, 0, 1, 2})}, {{"mode", mode}});
    s.add("MirrorPadGrad", {s.value({4, 6}), LayoutSamples::ints({2, 2}, {1, 0, 1, 2})}, {{"mode", mode}});
  }
  s.add("ReverseSequence", {s.value({2, 3, 2}), {Tensor::vector<std::int64_t>({2, 3})}}, {{"seq_dim", 1}});
  s.add("ReverseSequence", {s.value({3, 2, 2}), LayoutSamples::ints({0, 3})}, {{"seq_dim", 0}, {"batch_dim", 2}});
  s.add("Roll", {s.value({2, 3}), LayoutSamples::ints({1, -2}), LayoutSamples::ints({1, 0})});
}

void add_patches(LayoutSamples& s) {
  const AttrMap attrs{
      {"ksizes", Ints{1, 2, 2, 1}}, {"strides", Ints{1, 1, 2, 1}}, {"rates", Ints{1, 2, 1, 1}}, {"padding", "SAME"}};
  s.add("ExtractImagePatches", {s.value({2, 4, 3, 2})}, attrs);
  s.add("_ExtractImagePatchesGrad", {LayoutSamples::ints({1, 3, 3, 1}), s.value({1, 3, 2, 4})}, attrs);
}

void add_rare_math(LayoutSamples& s) {
  for (const char* op : {"Sinh", "Cosh", "Atan", "Asinh"}) s.add(op, {s.value({2, 3})});
  for (const char* op : {"Asin", "Acos", "Atanh"}) s.add(op, {s.value({2, 3}, -0.8, 0.8)});
  s.add("Acosh", {s.value({2, 3}, 1.3, 3)});
  s.add("Xlog1py", {s.value({2, 3}, 0.4, 2), s.value({3}, -0.5, 2)});
  s.add("Atan2", {s.value({2, 3}, 0.4, 2), s.value({2, 1}, -2, -0.4)});
  s.add("NextAfter", {s.value({2, 3}), LayoutSamples::fixed(s.value({3}))});
  const auto part = [](const char* op, Output z) { return op1(op, {z}, {{"Tout", DType::kDouble}}); };
  for (const char* op : {"Complex", "Real", "Imag", "Angle", "ComplexAbs"}) {
    s.add(op, {s.value({2, 3}, 0.3, 2), s.value({3}, 0.3, 2)}).build = [part](Graph&, const std::vector<Output>& in) {
      Output z = op1("Complex", {in[0], in[1]}, {{"Tout", DType::kComplex128}});
      Output squared = op1("Mul", {z, z});
      return std::vector{part("Real", squared), part("Imag", squared), part("Angle", z), part("ComplexAbs", z)};
    };
  }
}

void add_volumes(LayoutSamples& s) {
  for (const char* format : {"NDHWC", "NCDHW"}) {
    const bool first = std::string(format) == "NCDHW";
    const AttrMap attrs{{"strides", first ? Ints{1, 1, 1, 2, 1} : Ints{1, 1, 2, 1, 1}},
                        {"dilations", first ? Ints{1, 1, 1, 1, 2} : Ints{1, 1, 1, 2, 1}},
                        {"padding", "SAME"},
                        {"data_format", format}};
    const Shape x = first ? Shape{1, 2, 2, 3, 4} : Shape{1, 2, 3, 4, 2};
    const Shape y = first ? Shape{1, 3, 2, 2, 4} : Shape{1, 2, 2, 4, 3}, filter{2, 2, 2, 2, 3};
    const auto sizes = [](const Shape& shape) {
      return LayoutSamples::ints(std::vector<std::int32_t>(shape.dims().begin(), shape.dims().end()));
    };
    s.add("Conv3D", {s.value(x), s.value(filter)}, attrs);
    s.add("Conv3DBackpropInputV2", {sizes(x), s.value(filter), s.value(y)}, attrs);
    s.add("Conv3DBackpropFilterV2", {s.value(x), sizes(filter), s.value(y)}, attrs);
    const AttrMap pool{{"ksize", first ? Ints{1, 1, 2, 2, 3} : Ints{1, 2, 2, 3, 1}},
                       {"strides", first ? Ints{1, 1, 1, 2, 1} : Ints{1, 1, 2, 1, 1}},
                       {"padding", "SAME"},
                       {"data_format", format}};
    const Shape pooled = first ? Shape{1, 2, 2, 2, 4} : Shape{1, 2, 2, 4, 2};
    s.add("AvgPool3D", {s.value(x)}, pool);
    s.add("AvgPool3DGrad", {sizes(x), s.value(pooled)}, pool);
    // Maxima exist in float only: the difference of a linear function may be wide.
    const auto to = [](Output v, DType type) { return op1("Cast", {v}, {{"DstT", type}}); };
    const auto widen = [](OpSample& sample) {
      sample.step = 1e-2;
      sample.tolerance = 1e-3;
    };
    OpSample& forward = s.add("MaxPool3D", {s.distinct(x)});
    widen(forward);
    forward.build = [pool, to](Graph&, const std::vector<Output>& in) {
      return std::vector{to(op1("MaxPool3D", {to(in[0], DType::kFloat)}, pool), DType::kDouble)};
    };
    const SampleInput volumes = LayoutSamples::fixed(s.distinct(x));
    for (const std::string op : {"MaxPool3DGrad", "MaxPool3DGradGrad"}) {
      OpSample& back = s.add(op, {volumes, s.value(op == "MaxPool3DGrad" ? pooled : x)});
      widen(back);
      back.build = [op, pool, to](Graph&, const std::vector<Output>& in) {
        Output x = to(in[0], DType::kFloat), y = op1("MaxPool3D", {x}, pool);
        return std::vector{to(op1(op, {x, y, to(in[1], DType::kFloat)}, pool), DType::kDouble)};
      };
    }
  }
  s.add("Dilation2D", {s.distinct({1, 3, 4, 2}), s.value({2, 2, 2}, 0, 0.1)},
        {{"strides", Ints{1, 1, 2, 1}}, {"rates", Ints{1, 2, 1, 1}}, {"padding", "SAME"}});
}

void add_special_functions(LayoutSamples& s) {
  for (const char* op : {"Lgamma", "Digamma"}) {
    s.add(op, {s.value({2, 3}, 0.3, 4)});
    s.add(op, {s.value({3}, -1.8, -1.2)});
  }
  s.add("Erfinv", {s.value({2, 3}, -0.9, 0.9)});
  s.add("Ndtri", {s.value({2, 3}, 0.05, 0.95)});
  for (const char* op : {"Igamma", "Igammac"}) {
    s.add(op, {s.value({2, 3}, 0.3, 4), s.value({3}, 0.3, 1)});
    s.add(op, {s.value({2, 3}, 0.3, 4), s.value({3}, 4, 9)});
  }
  s.add("Zeta", {LayoutSamples::fixed(s.value({2, 3}, 1.5, 4)), s.value({3}, 0.3, 4)});
  s.add("Polygamma", {LayoutSamples::fixed({Tensor::vector<double>({1, 2, 3})}), s.value({2, 3}, 0.5, 4)});
  s.add("Betainc", {LayoutSamples::fixed(s.value({2, 3}, 0.5, 3)), LayoutSamples::fixed(s.value({2, 3}, 0.5, 3)),
                    s.value({2, 3}, 0.1, 0.9)});
  s.add("Betainc",
        {LayoutSamples::fixed(s.value({2}, 0.5, 3)), LayoutSamples::fixed(s.value({}, 0.5, 3)), s.value({}, 0.1, 0.9)});
}

// Far from singular; the gradient's matrix need not be symmetric, but Cholesky's is.
SampleInput matrices(LayoutSamples& s, const Shape& shape) {
  SampleInput input = s.value(shape, -0.5, 0.5);
  const std::int64_t n = shape.dim(shape.rank() - 1);
  double* data = input.value.data<double>();
  for (std::int64_t i = 0; i < shape.num_elements(); ++i) {
    if (i / n % n == i % n) data[i] += 2;
  }
  return input;
}

void add_decompositions(LayoutSamples& s) {
  for (const bool adjoint : {false, true}) {
    const AttrMap attrs{{"adjoint", adjoint}};
    s.add("MatrixInverse", {matrices(s, {2, 3, 3})}, attrs);
    s.add("MatrixSolve", {matrices(s, {2, 3, 3}), s.value({2, 3, 2})}, attrs);
    for (const bool lower : {false, true}) {
      s.add("MatrixTriangularSolve", {matrices(s, {2, 3, 3}), s.value({3, 2})},
            {{"adjoint", adjoint}, {"lower", lower}});
    }
  }
  for (const Shape& shape : {Shape{2, 3, 3}, Shape{4, 3}, Shape{2, 2, 4}}) s.add("Qr", {matrices(s, shape)});
  s.add("Qr", {matrices(s, {2, 4})}, {{"full_matrices", true}});
  s.add("MatrixDeterminant", {matrices(s, {2, 3, 3})});
  s.add("LogMatrixDeterminant", {matrices(s, {2, 3, 3})}).outputs = {1};
  // Of x x^T: a change of one element of it alone would not be symmetric.
  s.add("Cholesky", {matrices(s, {2, 3, 3})}).build = [](Graph&, const std::vector<Output>& in) {
    return std::vector{op1("Cholesky", {op1("BatchMatMulV2", {in[0], in[0]}, {{"adj_y", true}})})};
  };
}

}  // namespace

std::vector<OpSample> layout_samples() {
  LayoutSamples samples;
  add_einsums(samples);
  add_batch_products(samples);
  add_picks(samples);
  add_diagonals(samples);
  add_sequences(samples);
  add_patches(samples);
  add_rare_math(samples);
  add_volumes(samples);
  add_special_functions(samples);
  add_decompositions(samples);
  return samples.take();
}

}  // namespace tutti::testing
