#include "tests/ops/window_cases.h"

#include <cmath>

#include "tutti/kernels/ref/numbers.h"
#include "tutti/kernels/ref/reference.h"

namespace tutti::cases {
namespace {

using List = std::vector<std::int64_t>;

Tensor int32s(const List& values) {
  Tensor t(DType::kInt32, {static_cast<std::int64_t>(values.size())});
  for (std::size_t i = 0; i < values.size(); ++i) t.data<std::int32_t>()[i] = static_cast<std::int32_t>(values[i]);
  return t;
}

List dims_of(const Tensor& t) { return {t.shape().dims().begin(), t.shape().dims().end()}; }

// What an op gives by its reference; nothing when it refuses.
std::optional<std::vector<Tensor>> reference(const std::string& op, const AttrMap& attrs,
                                             const std::vector<Tensor>& inputs) {
  Result<std::vector<Tensor>> result = (*find_reference(op))(attrs, inputs);
  if (!result.ok()) return std::nullopt;
  return *result;
}

class Maker {
 public:
  Maker(DType dtype, int round, const Draw& draw) : dtype_(dtype), round_(round), draw_(draw) {}

  std::optional<WindowCase> conv(const std::string& op, bool depthwise) {
    const std::string forward = depthwise ? "DepthwiseConv2dNative" : "Conv2D";
    const std::int64_t group = depthwise ? 1 : pick({1, 2, 3, 4, 16});
    const std::int64_t groups = depthwise ? pick({1, 3, 8, 17}) : pick({1, 1, 2, 3});
    const std::int64_t each = pick({1, 2, 3, 16});
    WindowCase c{.attrs = window("strides", true, true)};
    const bool wrong = round_ % 12 == 11;
    const Tensor input = image(group * groups + (wrong ? 1 : 0));
    const Shape filter_shape =
        depthwise ? Shape{kernel(), kernel(), groups, each} : Shape{kernel(), kernel(), group, each * groups};
    const Tensor filter = draw_.tensor(dtype_, filter_shape);
    if (op == forward) {
      c.inputs = {input, filter};
      return c;
    }
    std::optional<std::vector<Tensor>> out = reference(forward, c.attrs, {input, filter});
    // A gradient that does not fit, where there is no output to take the gradient of.
    const Tensor grad = out ? draw_.tensor(dtype_, (*out)[0].shape()) : draw_.tensor(dtype_, {1, 1, 1, 1});
    if (op == forward + "BackpropInput") c.inputs = {int32s(dims_of(input)), filter, grad};
    if (op == forward + "BackpropFilter") c.inputs = {input, int32s(dims_of(filter)), grad};
    return c;
  }

  std::optional<WindowCase> pool(const std::string& op) {
    const bool argmax = op.find("Argmax") != std::string::npos;
    const bool v2 = op.ends_with("V2");
    const bool mean = op.starts_with("Avg");
    const bool paddings = op == "MaxPool" || op == "MaxPoolGrad";
    WindowCase c{.attrs = window("strides", paddings, false)};
    if (argmax) {
      first_ = false;
      c.attrs["strides"] = four(pick({1, 2, 3}), pick({1, 2}));
      c.attrs.erase("data_format");
      if (round_ % 3 == 0) c.attrs["include_batch_in_index"] = true;
    }
    // Windows larger than any padding.
    c.attrs["ksize"] = four(kernel() + (paddings ? 2 : 0), kernel() + (paddings ? 2 : 0));
    const Tensor input = image(pick({1, 3, 8, 16, 21, 35}));
    if (op == "MaxPool" && round_ % 8 == 7) return over_channels();
    const std::string forward = argmax ? "MaxPoolWithArgmax" : mean ? "AvgPool" : "MaxPool";
    const std::optional<std::vector<Tensor>> out = reference(forward, c.attrs, {input});
    if (!out || op == forward) {
      c.inputs = {input};
    }
    const Tensor grad = draw_.tensor(dtype_, out ? (*out)[0].shape() : Shape{1, 1, 1, 1});
    const Tensor second = draw_.tensor(dtype_, input.shape());
    const Tensor pooled = out ? (*out)[0] : grad;
    if (op == "AvgPoolGrad") c.inputs = {int32s(dims_of(input)), grad};
    if (op.starts_with("MaxPoolGrad")) c.inputs = {input, pooled, grad};
    if (op.starts_with("MaxPoolGradGrad")) c.inputs = {input, pooled, second};
    if (op == "MaxPoolGradWithArgmax") c.inputs = {input, grad, out ? (*out)[1] : Tensor(DType::kInt64, {1, 1, 1, 1})};
    if (op == "MaxPoolGradGradWithArgmax") {
      c.inputs = {input, second, out ? (*out)[1] : Tensor(DType::kInt64, {1, 1, 1, 1})};
    }
    if (v2) {
      if (op == "MaxPoolV2") c.inputs = {input};
      for (const char* name : {"ksize", "strides"}) {
        c.inputs.push_back(int32s(*c.attrs[name].get<List>()));
        c.attrs.erase(name);
      }
    }
    return c;
  }

  WindowCase batch_norm(const std::string& op) {
    const bool third = op.ends_with("V3");
    static const char* formats[] = {"NHWC", "NCHW", "NDHWC", "NCDHW"};
    const int kind = static_cast<int>(third ? round_ % 4 : round_ % 2);
    first_ = kind % 2 == 1;
    const std::int64_t channels = pick({1, 3, 16, 33});
    Shape shape = image_shape(channels);
    if (kind >= 2) shape = first_ ? Shape{2, channels, 3, 2, 4} : Shape{2, 3, 2, 4, channels};
    WindowCase c{.attrs = {{"data_format", formats[kind]}, {"epsilon", 0.01f}, {"is_training", round_ % 3 != 2}}};
    const Tensor x = draw_.tensor(dtype_, shape);
    const auto vector = [&] { return draw_.tensor(DType::kFloat, {round_ % 12 == 11 ? channels + 1 : channels}); };
    if (op.find("Grad") != std::string::npos) {
      c.inputs = {draw_.tensor(dtype_, shape), x, vector(), vector(), positive(vector())};
      if (third) c.inputs.push_back(Tensor(DType::kFloat, Shape{}));
      return c;
    }
    c.inputs = {x, vector(), vector(), vector(), positive(vector())};
    if (round_ % 4 == 1) c.attrs["exponential_avg_factor"] = 0.25f;
    return c;
  }

  WindowCase lrn(bool backward) {
    first_ = false;
    const Tensor x = image(pick({1, 4, 19}));
    WindowCase c{.inputs = {x},
                 .attrs = {{"depth_radius", draw_.integer(0, 5)}, {"bias", 2.0f}, {"alpha", 0.3f}, {"beta", 0.75f}}};
    if (!backward) return c;
    c.inputs = {draw_.tensor(dtype_, x.shape()), x, (*reference("LRN", c.attrs, {x}))[0]};
    return c;
  }

 private:
  std::int64_t pick(const List& values) {
    return values[static_cast<std::size_t>(draw_.integer(0, static_cast<std::int64_t>(values.size()) - 1))];
  }
  std::int64_t kernel() { return draw_.integer(1, 4); }
  List four(std::int64_t a, std::int64_t b) const { return first_ ? List{1, 1, a, b} : List{1, a, b, 1}; }

  Shape image_shape(std::int64_t channels) {
    const std::int64_t batch = round_ % 9 == 8 ? 0 : draw_.integer(1, 3);
    const std::int64_t rows = draw_.integer(1, 11), columns = draw_.integer(1, 11);
    return first_ ? Shape{batch, channels, rows, columns} : Shape{batch, rows, columns, channels};
  }
  Tensor image(std::int64_t channels) { return draw_.tensor(dtype_, image_shape(channels)); }

  AttrMap window(const char* strides, bool explicit_paddings, bool dilations) {
    first_ = draw_.integer(0, 3) == 0;
    AttrMap attrs{{strides, four(pick({1, 1, 2, 3}), pick({1, 1, 2, 3}))},
                  {"data_format", first_ ? "NCHW" : "NHWC"},
                  {"padding", round_ % 3 == 0 ? "SAME" : "VALID"}};
    if (dilations && draw_.integer(0, 2) == 0) attrs["dilations"] = four(pick({1, 2, 3}), pick({1, 2}));
    if (explicit_paddings && round_ % 3 == 2) {
      attrs["padding"] = "EXPLICIT";
      List pads(8, 0);
      for (std::size_t i = first_ ? 4 : 2; i < (first_ ? 8u : 6u); ++i) pads[i] = draw_.integer(0, 2);
      attrs["explicit_paddings"] = pads;
    }
    return attrs;
  }

  WindowCase over_channels() {
    first_ = false;
    return {.inputs = {image(12)},
            .attrs = {{"ksize", List{1, 1, 1, 3}}, {"strides", List{1, 1, 1, 3}}, {"padding", "VALID"}}};
  }

  static Tensor positive(const Tensor& t) {
    std::vector<double> values = ref::load<double>(t);
    for (double& value : values) value = std::abs(value) + 0.1;
    return ref::store(t.dtype(), t.shape(), values);
  }

  const DType dtype_;
  const int round_;
  const Draw& draw_;
  bool first_ = false;  // channels first
};

}  // namespace

std::optional<WindowCase> window_case(const std::string& op, DType dtype, int round, const Draw& draw) {
  Maker make(dtype, round, draw);
  if (op.starts_with("Conv2D")) return make.conv(op, false);
  if (op.starts_with("DepthwiseConv2dNative")) return make.conv(op, true);
  if (op.starts_with("MaxPool") || op.starts_with("AvgPool")) return make.pool(op);
  if (op.starts_with("FusedBatchNorm")) return make.batch_norm(op);
  if (op.starts_with("LRN")) return make.lrn(op == "LRNGrad");
  return std::nullopt;
}

}  // namespace tutti::cases
