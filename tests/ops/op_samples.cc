#include "tests/ops/op_samples.h"

#include <algorithm>
#include <complex>
#include <functional>
#include <iterator>
#include <random>
#include <span>
#include <utility>

#include "tests/ops/layout_samples.h"
#include "tests/ops/sparse_samples.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"

namespace tutti::testing {
namespace {

using Kind = SampleInput::Kind;

// Values are drawn in order from one seeded generator, so that a sample added at the end changes no other.
class Samples {
 public:
  SampleInput value(const Shape& shape, double low = -2, double high = 2, Kind kind = Kind::kValue) {
    Tensor tensor(DType::kDouble, shape);
    std::uniform_real_distribution<double> uniform(low, high);
    for (double& element : tensor.flat<double>()) element = uniform(random_);
    return {tensor, kind};
  }
  // Of both signs, none near zero: for functions with a kink there.
  SampleInput away_from_zero(const Shape& shape, double low = 0.3, double high = 2) {
    SampleInput input = value(shape, low, high);
    for (double& element : input.value.flat<double>()) element *= random_() % 2 ? 1 : -1;
    return input;
  }
  // Far from each other: for maxima.
  SampleInput distinct(const Shape& shape) {
    Tensor tensor(DType::kDouble, shape);
    std::span<double> flat = tensor.flat<double>();
    for (std::size_t i = 0; i < flat.size(); ++i) flat[i] = 0.37 * static_cast<double>(i) - 1;
    std::shuffle(flat.begin(), flat.end(), random_);
    return {tensor, Kind::kValue};
  }
  SampleInput variable(const Shape& shape) { return value(shape, -2, 2, Kind::kVariable); }

  static SampleInput i32(std::vector<std::int32_t> values) { return {Tensor::vector<std::int32_t>(values)}; }
  static SampleInput i64(std::vector<std::int64_t> values) { return {Tensor::vector<std::int64_t>(values)}; }
  static SampleInput i32(const Shape& shape, std::vector<std::int32_t> values) {
    return {Tensor::of<std::int32_t>(shape, values)};
  }
  static SampleInput scalar(std::int32_t value) { return {Tensor::scalar(value)}; }
  static SampleInput bools(const Shape& shape, std::vector<int> values) {
    Tensor tensor(DType::kBool, shape);
    for (std::size_t i = 0; i < values.size(); ++i) tensor.data<bool>()[i] = values[i] != 0;
    return {tensor};
  }
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
  std::mt19937 random_{20240229};
  std::vector<OpSample> samples_;
};

// Shapes that broadcast in every way.
void add_binary(Samples& s, const std::string& op, double low = -2, double high = 2) {
  s.add(op, {s.value({2, 3}, low, high), s.value({2, 3}, low, high)});
  s.add(op, {s.value({2, 3}, low, high), s.value({}, low, high)});
  s.add(op, {s.value({3}, low, high), s.value({2, 3}, low, high)});
  s.add(op, {s.value({2, 1, 3}, low, high), s.value({4, 1}, low, high)});
}

void add_plumbing(Samples& s) {
  s.add("Identity", {s.value({2, 3})});
  s.add("Snapshot", {s.value({2, 3})});
  s.add("IdentityN", {s.value({2}), s.value({})});
  s.add("PlaceholderWithDefault", {s.value({2})}, {{"shape", PartialShape{2}}});
  s.add("CheckNumerics", {s.value({2, 2})}, {{"message", "bad"}});
  s.add("EnsureShape", {s.value({2, 2})}, {{"shape", PartialShape{-1, 2}}});
}

void add_arithmetic(Samples& s) {
  for (const char* op : {"Add", "AddV2", "Sub", "Mul", "MulNoNan", "SquaredDifference"}) add_binary(s, op);
  for (const char* op : {"Div", "RealDiv", "DivNoNan"}) {
    s.add(op, {s.value({2, 3}), s.away_from_zero({2, 3})});
    s.add(op, {s.value({2, 1, 3}), s.away_from_zero({4, 1})});
  }
  for (const char* op : {"Pow", "Xlogy", "Xdivy"}) add_binary(s, op, 0.4, 2);
  s.add("Pow", {{Tensor::vector<double>({-1.5, 0.7}), Kind::kValue}, Samples::fixed({Tensor::vector<double>({2, 3})})});
  // Away from the jumps of the quotient.
  for (const char* op : {"FloorMod", "Mod", "TruncateMod"}) {
    s.add(op, {{Tensor::vector<double>({5.3, -4.4, 7.1}), Kind::kValue}, {Tensor::scalar(2.0), Kind::kValue}});
  }
  for (const char* op : {"Maximum", "Minimum"}) {
    SampleInput both = s.distinct({2, 6});
    s.add(op, {{both.value.slice(0, 1).clone().value_or_throw(), Kind::kValue},
               {both.value.slice(1, 2).clone().value_or_throw(), Kind::kValue}});
    s.add(op, {s.value({2, 3}, 0, 1), s.value({3}, 1.1, 2)});
  }
}

void add_functions(Samples& s) {
  for (const char* op : {"Neg", "Square", "Exp", "Expm1", "Sin", "Cos", "Tanh", "Sigmoid", "Erf", "Erfc"}) {
    s.add(op, {s.value({2, 3})});
    s.add(op, {s.value({})});
  }
  for (const char* op : {"Sqrt", "Rsqrt", "Log", "Log1p"}) s.add(op, {s.value({2, 3}, 0.3, 2)});
  for (const char* op : {"Reciprocal", "Inv", "Abs", "Sign"}) s.add(op, {s.away_from_zero({2, 3})});
  s.add("Tan", {s.value({2, 3}, -1, 1)});
  for (const char* op : {"SigmoidGrad", "TanhGrad", "RsqrtGrad", "ReciprocalGrad", "InvGrad"}) {
    s.add(op, {s.value({2, 3}), s.value({2, 3})});
  }
  s.add("SqrtGrad", {s.value({2, 3}, 0.5, 2), s.value({2, 3})});
  s.add("Conj", {s.value({2, 2})}).build = [](Graph&, const std::vector<Output>& in) {
    Output complex = op1("Cast", {in[0]}, {{"DstT", DType::kComplex128}});
    return std::vector{op1("Cast", {op1("Conj", {complex})}, {{"DstT", DType::kDouble}})};
  };
}

void add_choices(Samples& s) {
  s.add("Select", {Samples::bools({2, 2}, {1, 0, 0, 1}), s.value({2, 2}), s.value({2, 2})});
  s.add("Select", {Samples::bools({2}, {1, 0}), s.value({2, 2}), s.value({2, 2})});
  s.add("Select", {Samples::bools({}, {0}), s.value({2, 2}), s.value({2, 2})});
  s.add("SelectV2", {Samples::bools({2, 1}, {1, 0}), s.value({3}), s.value({2, 3})});
  s.add("SelectV2", {Samples::bools({2, 3}, {1, 0, 1, 1, 0, 0}), s.value({}), s.value({3})});
  s.add("ClipByValue", {s.distinct({7}), {Tensor::scalar(-0.5), Kind::kValue}, {Tensor::scalar(0.6), Kind::kValue}});
  s.add("AddN", {s.value({2}), s.value({2}), s.value({2})});
  s.add("AddN", {s.value({2})});
  s.add("Cast", {s.value({2})}, {{"DstT", DType::kDouble}});
  s.add("Cast", {s.value({2})}).build = [](Graph&, const std::vector<Output>& in) {
    Output complex = op1("Cast", {in[0]}, {{"DstT", DType::kComplex128}});
    return std::vector{op1("Cast", {op1("Mul", {complex, complex})}, {{"DstT", DType::kDouble}})};
  };
  s.add("L2Loss", {s.value({2, 3})});
}

void add_layout(Samples& s) {
  s.add("Reshape", {s.value({2, 3}), Samples::i32({3, -1})});
  s.add("Reshape", {s.value({0, 3}), Samples::i32({3, 0})});
  s.add("ExpandDims", {s.value({2, 3}), Samples::scalar(1)});
  s.add("Squeeze", {s.value({1, 2, 1})});
  s.add("Squeeze", {s.value({1, 2, 1})}, {{"squeeze_dims", std::vector<std::int64_t>{-1}}});
  s.add("ConcatV2", {s.value({2, 1}), s.value({2, 3}), Samples::scalar(1)});
  s.add("ConcatV2", {s.value({2, 2}), s.value({0, 2}), s.value({1, 2}), Samples::scalar(-2)});
  s.add("Concat", {Samples::scalar(0), s.value({2, 1}), s.value({1, 1})});
  s.add("Pack", {s.value({2}), s.value({2})});
  s.add("Pack", {s.value({2, 2}), s.value({2, 2})}, {{"axis", -1}});
  s.add("Unpack", {s.value({2, 3})}, {{"num", 3}, {"axis", 1}});
  s.add("Unpack", {s.value({2, 3})}, {{"num", 2}}).outputs = {1};
  s.add("Split", {Samples::scalar(1), s.value({2, 4})}, {{"num_split", 2}});
  s.add("SplitV", {s.value({5, 2}), Samples::i64({2, -1, 2}), Samples::scalar(0)}, {{"num_split", 3}});
  s.add("Transpose", {s.value({2, 3, 4}), Samples::i32({2, 0, 1})});
  s.add("Tile", {s.value({2, 3}), Samples::i32({2, 3})});
  s.add("BroadcastTo", {s.value({2, 1}), Samples::i32({3, 2, 4})});
  s.add("ReverseV2", {s.value({2, 3}), Samples::i32({1, 0})});
  s.add("Fill", {Samples::i32({2, 3}), s.value({})});
}

void add_slices(Samples& s) {
  s.add("Slice", {s.value({3, 4}), Samples::i32({1, 0}), Samples::i32({-1, 2})});
  s.add("StridedSlice", {s.value({4, 5}), Samples::i32({0, 4}), Samples::i32({4, 0}), Samples::i32({2, -2})});
  s.add("StridedSlice", {s.value({4, 5}), Samples::i32({1, 0}), Samples::i32({2, 3}), Samples::i32({1, 1})},
        {{"shrink_axis_mask", 1}, {"begin_mask", 2}});
  s.add("StridedSlice", {s.value({2, 3, 4}), Samples::i32({0, 0, 1}), Samples::i32({0, 0, 2}), Samples::i32({1, 1, 1})},
        {{"ellipsis_mask", 1}, {"new_axis_mask", 2}});
  s.add("StridedSliceGrad",
        {Samples::i32({4, 5}), Samples::i32({0, 1}), Samples::i32({4, 4}), Samples::i32({2, 1}), s.value({2, 3})});
  s.add("TensorStridedSliceUpdate",
        {s.value({4, 5}), Samples::i32({0, 4}), Samples::i32({4, 0}), Samples::i32({2, -2}), s.value({2, 2})});
  s.add("TensorStridedSliceUpdate",
        {s.value({4, 5}), Samples::i32({1, 0}), Samples::i32({3, 3}), Samples::i32({1, 1}), s.value({2, 1})});
  s.add("Pad", {s.value({2, 3}), Samples::i32({2, 2}, {1, 0, 0, 2})});
  s.add("PadV2", {s.value({2, 3}), Samples::i32({2, 2}, {1, 0, 0, 2}), Samples::fixed(s.value({}))});
}

void add_gathers(Samples& s) {
  s.add("Gather", {s.value({4, 2}), Samples::i32({1, 3, 1})});
  s.add("Gather", {s.value({4}), Samples::i32({2, 2}, {1, 3, 1, 0})});
  s.add("GatherV2", {s.value({4, 2}), Samples::i32({1, 3, 1}), Samples::scalar(0)});
  s.add("GatherV2", {s.value({4, 2, 3}), Samples::i32({2, 2}, {1, 0, 1, 1}), Samples::scalar(1)});
  s.add("GatherV2", {s.value({3, 4}), Samples::i32({2}), Samples::scalar(-1)});
  s.add("GatherV2", {s.value({2, 3, 2}), Samples::i32({2, 2}, {2, 0, 1, 1}), Samples::scalar(1)}, {{"batch_dims", 1}});
  s.add("GatherNd", {s.value({3, 2}), Samples::i32({2, 2}, {1, 0, 2, 1})});
  s.add("GatherNd", {s.value({3, 2}), Samples::i32({3, 1}, {1, 1, 0})});
  s.add("ScatterNd", {Samples::i32({3, 1}, {1, 4, 1}), s.value({3, 2}), Samples::i32({5, 2})});
  s.add("DynamicPartition", {s.value({4, 2}), Samples::i32({1, 0, 1, 1})}, {{"num_partitions", 3}});
  for (const char* op : {"DynamicStitch", "ParallelDynamicStitch"}) {
    s.add(op, {Samples::i32({0, 2}), Samples::scalar(1), s.value({2, 2}), s.value({2})}, {{"N", 2}});
  }
  s.add("UnsortedSegmentSum", {s.value({4, 2}), Samples::i32({2, 0, -1, 2}), Samples::scalar(3)});
  s.add("UnsortedSegmentSum", {s.value({2, 2}), Samples::i32({2, 2}, {2, 0, -1, 2}), Samples::scalar(3)});
  s.add("SegmentSum", {s.value({4, 2}), Samples::i32({0, 0, 2, 2})});
  s.add("Cumsum", {s.value({3, 2}), Samples::scalar(0)});
  s.add("Cumsum", {s.value({3, 2}), Samples::scalar(-1)}, {{"exclusive", true}, {"reverse", true}});
  s.add("Cumprod", {s.away_from_zero({3, 2}), Samples::scalar(0)});
  s.add("Cumprod", {s.away_from_zero({3, 2}), Samples::scalar(-1)}, {{"exclusive", true}, {"reverse", true}});
}

void add_variables(Samples& s) {
  s.add("ReadVariableOp", {s.variable({2, 2})}, {{"dtype", DType::kDouble}});
  s.add("ResourceGather", {s.variable({4, 2}), Samples::i32({1, 3, 1})}, {{"dtype", DType::kDouble}});
  s.add("ResourceGather", {s.variable({4}), Samples::i32({2, 2}, {1, 3, 1, 0})}, {{"dtype", DType::kDouble}});
}

void add_reductions(Samples& s) {
  for (const char* op : {"Sum", "Mean", "Prod", "Max", "Min", "EuclideanNorm"}) {
    s.add(op, {s.distinct({2, 3}), Samples::i32({0})});
    s.add(op, {s.distinct({2, 3}), Samples::scalar(-1)}, {{"keep_dims", true}});
    s.add(op, {s.distinct({2, 3, 2}), Samples::i32({0, 2})});
    s.add(op, {s.distinct({2, 2}), Samples::i32({1, 0})});
    s.add(op, {s.distinct({2}), Samples::i32({})});
  }
  s.add("Sum", {s.value({0, 2}), Samples::i32({0})});
  s.add("Mean", {s.value({}), Samples::i32({})});
  // A product with zeros among its factors, one and two.
  s.add("Prod", {{Tensor::of<double>({2, 3}, {0, 2, 3, 0, 0, 4}), Kind::kValue}, Samples::i32({1})});
}

void add_products(Samples& s) {
  for (bool a : {false, true}) {
    for (bool b : {false, true}) {
      s.add("MatMul", {s.value(a ? Shape{3, 2} : Shape{2, 3}), s.value(b ? Shape{4, 3} : Shape{3, 4})},
            {{"transpose_a", a}, {"transpose_b", b}});
      for (const char* op : {"BatchMatMul", "BatchMatMulV2"}) {
        s.add(op, {s.value(a ? Shape{2, 3, 2} : Shape{2, 2, 3}), s.value(b ? Shape{2, 4, 3} : Shape{2, 3, 4})},
              {{"adj_x", a}, {"adj_y", b}});
      }
    }
  }
  s.add("BatchMatMulV2", {s.value({2, 1, 2, 3}), s.value({4, 3, 2})});
  s.add("BatchMatMulV2", {s.value({2, 3}), s.value({2, 3, 2})}, {{"adj_x", false}});
}

void add_activations(Samples& s) {
  for (const char* op : {"Relu", "Elu", "Selu", "LeakyRelu", "Softplus", "Softsign"}) {
    s.add(op, {s.away_from_zero({2, 3})});
  }
  s.add("Relu6", {{Tensor::vector<double>({-1, 0.5, 5.5, 7}), Kind::kValue}});
  s.add("LeakyRelu", {s.away_from_zero({2, 3})}, {{"alpha", 0.5f}});
  for (const char* op : {"ReluGrad", "LeakyReluGrad", "SoftplusGrad", "SoftsignGrad", "EluGrad"}) {
    s.add(op, {s.value({2, 3}), s.away_from_zero({2, 3})});
  }
  // The function's value lies above -1.7581.
  s.add("SeluGrad", {s.value({2, 3}), s.away_from_zero({2, 3}, 0.3, 1.5)});
  s.add("Relu6Grad", {s.value({4}), {Tensor::vector<double>({-1, 0.5, 5.5, 7}), Kind::kValue}});
}

void add_losses(Samples& s) {
  s.add("BiasAdd", {s.value({2, 3}), s.value({3})});
  s.add("BiasAdd", {s.value({2, 3, 2, 2}), s.value({3})}, {{"data_format", "NCHW"}});
  s.add("BiasAddV1", {s.value({2, 2, 3}), s.value({3})});
  s.add("BiasAddGrad", {s.value({2, 2, 3})});
  s.add("BiasAddGrad", {s.value({2, 3, 2, 2})}, {{"data_format", "NCHW"}});
  s.add("Softmax", {s.value({2, 3})});
  s.add("LogSoftmax", {s.value({2, 3})});
  // The second output is the gradient of the first: differentiating both tries the second derivative too.
  // What it takes for the derivative is one only for labels that sum to 1.
  const SampleInput labels = {Tensor::of<double>({2, 3}, {0.2, 0.5, 0.3, 0.1, 0.8, 0.1}), Kind::kValue};
  s.add("SoftmaxCrossEntropyWithLogits", {s.value({2, 3}), labels}).outputs = {0};
  s.add("SoftmaxCrossEntropyWithLogits", {s.value({2, 3}), Samples::fixed(labels)});
  s.add("SparseSoftmaxCrossEntropyWithLogits", {s.value({2, 3}), Samples::i64({2, 0})}).outputs = {0};
  s.add("SparseSoftmaxCrossEntropyWithLogits", {s.value({2, 3}), Samples::i64({2, 0})});
}

// Lists: made from rows, changed by the op under test, and stacked again.
const AttrMap kDoubles = {{"element_dtype", DType::kDouble}};

Output open_shape(Graph& graph) {
  return add_op(graph, "Const", {}, {{"dtype", DType::kInt32}, {"value", Tensor::scalar(std::int32_t{-1})}})->output();
}
Output list_of(Output rows) { return op1("TensorListFromTensor", {rows, open_shape(rows.graph())}, kDoubles); }
Output stacked(Output list) { return op1("TensorListStack", {list, open_shape(list.graph())}, kDoubles); }
Node* popped(Output list) {
  return add_op(list.graph(), "TensorListPopBack", {list, open_shape(list.graph())}, kDoubles);
}
Output item(Output list, Output index) {
  return op1("TensorListGetItem", {list, index, open_shape(list.graph())}, kDoubles);
}

void add_lists(Samples& s) {
  for (const char* op : {"TensorListFromTensor", "TensorListStack"}) {
    s.add(op, {s.value({3, 2})}).build = [](Graph&, const std::vector<Output>& in) {
      return std::vector{stacked(list_of(in[0]))};
    };
  }
  s.add("TensorListPushBack", {s.value({2, 2}), s.value({2})}).build = [](Graph&, const std::vector<Output>& in) {
    return std::vector{stacked(op1("TensorListPushBack", {list_of(in[0]), in[1]}))};
  };
  s.add("TensorListPopBack", {s.value({3, 2})}).build = [](Graph&, const std::vector<Output>& in) {
    Node* pop = popped(list_of(in[0]));
    return std::vector{stacked(pop->output(0)), pop->output(1)};
  };
  // Only one of its results is used.
  s.add("TensorListPopBack", {s.value({3, 2})}).build = [](Graph&, const std::vector<Output>& in) {
    return std::vector{popped(list_of(in[0]))->output(1)};
  };
  s.add("TensorListPopBack", {s.value({3, 2})}).build = [](Graph&, const std::vector<Output>& in) {
    return std::vector{stacked(popped(list_of(in[0]))->output(0))};
  };
  s.add("TensorListGetItem", {s.value({3, 2}), Samples::scalar(1)}).build = [](Graph&, const std::vector<Output>& in) {
    return std::vector{item(list_of(in[0]), in[1])};
  };
  // Two items: the list's gradient is a sum of lists.
  s.add("TensorListGetItem", {s.value({3, 2}), Samples::scalar(1), Samples::scalar(2)}).build =
      [](Graph&, const std::vector<Output>& in) {
        Output list = list_of(in[0]);
        return std::vector{op1("Mul", {item(list, in[1]), item(list, in[2])}), stacked(list)};
      };
  s.add("TensorListSetItem", {s.value({3, 2}), Samples::scalar(1), s.value({2})}).build =
      [](Graph&, const std::vector<Output>& in) {
        return std::vector{stacked(op1("TensorListSetItem", {list_of(in[0]), in[1], in[2]}))};
      };
}

// What gathers, scatters and joins items of lists, between tensors that are cut into lists and stacked again.
void add_list_parts(Samples& s) {
  const AttrMap with_shape = {{"element_dtype", DType::kDouble}, {"shape_type", DType::kInt32}};
  s.add("TensorListGather", {s.value({3, 2}), Samples::i32({2, 0, 1})}).build = [](Graph& graph,
                                                                                   const std::vector<Output>& in) {
    return std::vector{op1("TensorListGather", {list_of(in[0]), in[1], open_shape(graph)}, kDoubles)};
  };
  s.add("TensorListScatter", {s.value({2, 2}), Samples::i32({1, 0})}).build =
      [with_shape](Graph& graph, const std::vector<Output>& in) {
        return std::vector{stacked(op1("TensorListScatter", {in[0], in[1], open_shape(graph)}, with_shape))};
      };
  s.add("TensorListScatterV2", {s.value({2, 2}), Samples::i32({2, 0}), Samples::scalar(3)}).build =
      [with_shape](Graph& graph, const std::vector<Output>& in) {
        return std::vector{stacked(op1("TensorListScatterV2", {in[0], in[1], open_shape(graph), in[2]}, with_shape))};
      };
  s.add("TensorListScatterIntoExistingList", {s.value({3, 2}), s.value({2, 2}), Samples::i32({2, 1})}).build =
      [](Graph&, const std::vector<Output>& in) {
        return std::vector{stacked(op1("TensorListScatterIntoExistingList", {list_of(in[0]), in[1], in[2]}, kDoubles))};
      };
  s.add("TensorListResize", {s.value({3, 2}), Samples::scalar(2)}).build = [](Graph&, const std::vector<Output>& in) {
    return std::vector{stacked(op1("TensorListResize", {list_of(in[0]), in[1]}))};
  };
  for (const char* op : {"TensorListSplit", "TensorListConcatV2"}) {
    s.add(op, {s.value({4, 2}), Samples::i64({1, 3})}).build = [with_shape](Graph& graph,
                                                                            const std::vector<Output>& in) {
      Output list = op1("TensorListSplit", {in[0], open_shape(graph), in[1]}, with_shape);
      return std::vector{add_op(graph, "TensorListConcatV2", {list, open_shape(graph), in[1]}, with_shape)->output(0)};
    };
  }
  s.add("TensorListConcat", {s.value({2, 2, 2})}).build = [](Graph& graph, const std::vector<Output>& in) {
    return std::vector{add_op(graph, "TensorListConcat", {list_of(in[0])}, kDoubles)->output(0)};
  };
}

// Complex values between real ones: neither factor nor result is real.
Output turned(Output x, double angle) {
  Tensor factor(DType::kComplex128, {});
  factor.data<std::complex<double>>()[0] = std::polar(1.0, angle);
  return op1("Mul", {x, constant(x.graph(), factor)});
}
Output complex_of(Output x, double angle) { return turned(op1("Cast", {x}, {{"DstT", DType::kComplex128}}), angle); }
Output real_of(Output x) { return op1("Cast", {turned(x, 0.7)}, {{"DstT", DType::kDouble}}); }

std::function<std::vector<Output>(Graph&, const std::vector<Output>&)> complex_sparse_product(bool a, bool b) {
  return [a, b](Graph& graph, const std::vector<Output>& in) {
    Output places = constant(graph, Tensor::of<std::int64_t>({2, 2}, {0, 1, 1, 0}));
    Output shape = constant(graph, Tensor::vector<std::int64_t>({2, 2}));
    return std::vector{
        real_of(op1("SparseTensorDenseMatMul", {places, complex_of(in[0], 1), shape, complex_of(in[1], 2)},
                    {{"adjoint_a", a}, {"adjoint_b", b}}))};
  };
}

void add_blocks(Samples& s) {
  s.add("SpaceToBatchND", {s.value({2, 3, 4, 2}), Samples::i32({2, 3}), Samples::i32({2, 2}, {1, 0, 0, 2})});
  s.add("BatchToSpaceND", {s.value({6, 2, 2, 2}), Samples::i32({2, 3}), Samples::i32({2, 2}, {1, 0, 0, 2})});
  s.add("SpaceToBatch", {s.value({1, 3, 4, 2}), Samples::i32({2, 2}, {1, 0, 0, 2})}, {{"block_size", 2}});
  s.add("BatchToSpace", {s.value({4, 2, 3, 2}), Samples::i32({2, 2}, {1, 0, 0, 2})}, {{"block_size", 2}});
  s.add("SpaceToDepth", {s.value({2, 2, 4, 3})}, {{"block_size", 2}});
  s.add("DepthToSpace", {s.value({2, 1, 2, 12})}, {{"block_size", 2}});
}

void add_late_plumbing(Samples& s) {
  for (bool exclusive : {false, true}) {
    for (bool reverse : {false, true}) {
      s.add("Cumprod", {s.away_from_zero({3, 2}), Samples::scalar(0)},
            {{"exclusive", exclusive}, {"reverse", reverse}});
    }
  }
  s.add("SparseToDense", {Samples::i32({2, 2}, {0, 1, 1, 0}), Samples::i32({2, 3}), s.value({2}), s.value({})});
  for (bool a : {false, true}) {
    for (bool b : {false, true}) {
      // One place twice, one row of each operand without any.
      const SampleInput places =
          Samples::i32({4, 2}, a ? std::vector{1, 0, 1, 0, 3, 2, 0, 1} : std::vector{0, 1, 0, 1, 2, 3, 1, 0});
      s.add("SparseTensorDenseMatMul",
            {places, s.value({4}), a ? Samples::i64({4, 3}) : Samples::i64({3, 4}),
             s.value(b ? Shape{2, 4} : Shape{4, 2})},
            {{"adjoint_a", a}, {"adjoint_b", b}});
    }
  }
  for (bool a : {false, true}) {
    for (bool b : {false, true}) {
      s.add("SparseTensorDenseMatMul", {s.value({2}), s.value({2, 2})}).build = complex_sparse_product(a, b);
    }
  }
  s.add("ConjugateTranspose", {s.value({2, 3}), Samples::i32({1, 0})});
  s.add("ConjugateTranspose", {s.value({2, 3})}).build = [](Graph& graph, const std::vector<Output>& in) {
    Output perm = constant(graph, Tensor::vector<std::int32_t>({1, 0}));
    return std::vector{real_of(op1("ConjugateTranspose", {complex_of(in[0], 2), perm}))};
  };
  s.add("GatherV2", {s.value({2, 3, 4}), Samples::i32({2, 2}, {3, 0, 1, 1}), Samples::scalar(2)}, {{"batch_dims", 1}});
  s.add("GatherV2", {s.value({2, 3, 4, 2}), Samples::i32({2, 2}, {3, 0, 1, 1}), Samples::scalar(-2)},
        {{"batch_dims", 1}});
  s.add("GatherV2", {s.value({2, 3, 2}), Samples::i32({2, 3}, {1, 0, 1, 1, 1, 0}), Samples::scalar(2)},
        {{"batch_dims", 2}});
  s.add("ResourceGather", {s.variable({2, 3, 2}), Samples::i32({2, 2}, {2, 0, 1, 1})},
        {{"dtype", DType::kDouble}, {"batch_dims", 1}});
  add_blocks(s);
  s.add("CheckNumericsV2", {s.value({2, 2})}, {{"message", "bad"}});
  s.add("Print", {s.value({2}), Samples::i32({1})}, {{"first_n", 0}});
}

using List = std::vector<std::int64_t>;

// Convolutions, and their gradients, which are linear in two factors as well.
void add_convolutions(Samples& s) {
  const std::vector<AttrMap> windows = {
      {{"strides", List{1, 1, 1, 1}}, {"padding", "SAME"}},
      {{"strides", List{1, 2, 1, 1}}, {"padding", "VALID"}, {"dilations", List{1, 1, 2, 1}}},
      {{"strides", List{1, 1, 2, 2}}, {"padding", "SAME"}, {"data_format", "NCHW"}},
      {{"strides", List{1, 2, 2, 1}}, {"padding", "EXPLICIT"}, {"explicit_paddings", List{0, 0, 1, 2, 0, 1, 0, 0}}}};
  const std::vector<Shape> outputs = {{2, 4, 5, 2}, {2, 2, 3, 2}, {2, 2, 2, 3}, {2, 3, 3, 2}};
  for (std::size_t i = 0; i < windows.size(); ++i) {
    const bool first = windows[i].contains("data_format");
    const Shape image = first ? Shape{2, 2, 4, 5} : Shape{2, 4, 5, 2};
    const std::vector<std::int32_t> image_dims(image.dims().begin(), image.dims().end());
    s.add("Conv2D", {s.value(image), s.value({2, 2, 2, 2})}, windows[i]);
    s.add("Conv2DBackpropInput", {Samples::i32(image_dims), s.value({2, 2, 2, 2}), s.value(outputs[i])}, windows[i]);
    s.add("Conv2DBackpropFilter", {s.value(image), Samples::i32({2, 2, 2, 2}), s.value(outputs[i])}, windows[i]);
  }
  // Two groups.
  s.add("Conv2D", {s.value({1, 3, 3, 4}), s.value({2, 2, 2, 4})}, windows[0]);
  s.add("DepthwiseConv2dNative", {s.value({2, 4, 5, 2}), s.value({2, 2, 2, 2})}, windows[0]);
  s.add("DepthwiseConv2dNativeBackpropInput",
        {Samples::i32({2, 4, 5, 2}), s.value({2, 2, 2, 2}), s.value({2, 4, 5, 4})}, windows[0]);
  s.add("DepthwiseConv2dNativeBackpropFilter",
        {s.value({2, 4, 5, 2}), Samples::i32({2, 2, 2, 2}), s.value({2, 4, 5, 4})}, windows[0]);
}

void add_pools(Samples& s) {
  const AttrMap window{{"ksize", List{1, 2, 3, 1}}, {"strides", List{1, 2, 2, 1}}, {"padding", "SAME"}};
  const AttrMap sizeless{{"padding", "SAME"}};
  const AttrMap valid{
      {"ksize", List{1, 1, 2, 2}}, {"strides", List{1, 1, 1, 2}}, {"padding", "VALID"}, {"data_format", "NCHW"}};
  const AttrMap padded{{"ksize", List{1, 2, 2, 1}},
                       {"strides", List{1, 2, 2, 1}},
                       {"padding", "EXPLICIT"},
                       {"explicit_paddings", List{0, 0, 1, 0, 0, 1, 0, 0}}};
  const SampleInput ksize = Samples::i32({1, 2, 3, 1}), strides = Samples::i32({1, 2, 2, 1});
  for (const AttrMap& attrs : {window, valid, padded}) s.add("MaxPool", {s.distinct({2, 3, 4, 2})}, attrs);
  for (const AttrMap& attrs : {window, valid}) {
    const Shape pooled = attrs.contains("data_format") ? Shape{2, 3, 3, 1} : Shape{2, 2, 2, 2};
    s.add("AvgPool", {s.value({2, 3, 4, 2})}, attrs);
    s.add("AvgPoolGrad", {Samples::i32({2, 3, 4, 2}), s.value(pooled)}, attrs);
    for (const char* op : {"MaxPoolGrad", "MaxPoolGradGrad"}) {
      const Shape grad = std::string(op) == "MaxPoolGrad" ? pooled : Shape{2, 3, 4, 2};
      s.add(op, {s.distinct({2, 3, 4, 2}), Samples::fixed(s.value(pooled)), s.value(grad)}, attrs);
    }
  }
  s.add("MaxPoolV2", {s.distinct({2, 3, 4, 2}), ksize, strides}, sizeless);
  s.add("MaxPoolGradV2",
        {s.distinct({2, 3, 4, 2}), Samples::fixed(s.value({2, 2, 2, 2})), s.value({2, 2, 2, 2}), ksize, strides},
        sizeless);
  s.add("MaxPoolGradGradV2",
        {s.distinct({2, 3, 4, 2}), Samples::fixed(s.value({2, 2, 2, 2})), s.value({2, 3, 4, 2}), ksize, strides},
        sizeless);
  s.add("MaxPoolWithArgmax", {s.distinct({2, 3, 4, 2})}, window).outputs = {0};
  const SampleInput places = Samples::i32({1, 2, 2, 1}, {0, 3, 8, 3});
  const AttrMap small{{"ksize", List{1, 2, 2, 1}}, {"strides", List{1, 2, 2, 1}}, {"padding", "SAME"}};
  s.add("MaxPoolGradWithArgmax", {Samples::fixed(s.value({1, 3, 3, 1})), s.value({1, 2, 2, 1}), places}, small);
  s.add("MaxPoolGradGradWithArgmax", {Samples::fixed(s.value({1, 3, 3, 1})), s.value({1, 3, 3, 1}), places}, small);
}

// Ops in float only: between casts, with a step that rounding does not swallow.
OpSample& add_float_op(Samples& s, const std::string& op, std::vector<SampleInput> inputs, const AttrMap& attrs,
                       std::vector<int> outputs) {
  OpSample& sample = s.add(op, std::move(inputs), attrs);
  sample.step = 1e-2;
  sample.tolerance = 5e-3;
  sample.build = [op, attrs, outputs](Graph& graph, const std::vector<Output>& in) {
    std::vector<Output> floats, results;
    for (Output input : in) floats.push_back(op1("Cast", {input}, {{"DstT", DType::kFloat}}));
    Node* node = add_op(graph, op, floats, attrs);
    for (int i : outputs) results.push_back(op1("Cast", {node->output(i)}, {{"DstT", DType::kDouble}}));
    return results;
  };
  return sample;
}

// Sequences of an LSTM; what flows out is the state and the output of every step.
void add_recurrent(Samples& s) {
  for (const char* op : {"BlockLSTM", "BlockLSTMV2"}) {
    for (bool peephole : {false, true}) {
      const AttrMap attrs{{"use_peephole", peephole}, {"cell_clip", 0.0f}};
      const auto weights = [&](const Shape& shape) { return s.value(shape, -0.5, 0.5); };
      OpSample& sample = add_float_op(s, op,
                                      {weights({3, 2, 2}), weights({2, 3}), weights({2, 3}), weights({5, 12}),
                                       weights({3}), weights({3}), weights({3}), weights({12})},
                                      attrs, {1, 6});
      sample.build = [op, attrs](Graph& graph, const std::vector<Output>& in) {
        std::vector<Output> all{constant(graph, Tensor::scalar(std::int64_t{3}))}, results;
        for (Output input : in) all.push_back(op1("Cast", {input}, {{"DstT", DType::kFloat}}));
        Node* node = add_op(graph, op, all, attrs);
        for (int i : {1, 6}) results.push_back(op1("Cast", {node->output(i)}, {{"DstT", DType::kDouble}}));
        return results;
      };
    }
  }
}

void add_normalisations(Samples& s) {
  for (const char* version : {"", "V2", "V3"}) {
    for (const char* format : {"NHWC", "NCHW"}) {
      for (bool training : {true, false}) {
        const AttrMap attrs{{"data_format", format}, {"is_training", training}, {"epsilon", 0.1f}};
        const auto vector = [&](double low = -1) { return s.value({2}, low, 1); };
        add_float_op(s, std::string("FusedBatchNorm") + version,
                     {s.value({3, 2, 2, 2}), vector(), vector(), Samples::fixed(vector()), Samples::fixed(vector(0.3))},
                     attrs, {0});
        // Its statistics must be those of x for the terms that assume it: outside training any will do.
        if (training) continue;
        std::vector<SampleInput> inputs{s.value({3, 2, 2, 2}), s.value({3, 2, 2, 2}), vector(),
                                        Samples::fixed(vector()), Samples::fixed(vector(0.3))};
        if (std::string(version) == "V3") inputs.push_back(Samples::fixed(s.value({})));
        add_float_op(s, std::string("FusedBatchNormGrad") + version, std::move(inputs), attrs, {0, 1, 2});
      }
    }
  }
  // In training, with statistics that follow x: through the gradient's gradient of the whole.
  for (const char* format : {"NHWC", "NCHW"}) {
    const AttrMap attrs{{"data_format", format}, {"epsilon", 0.5f}};
    OpSample& twice = s.add("FusedBatchNormGradV3", {s.value({3, 2, 2, 2}), s.value({3, 2, 2, 2}), s.value({2})});
    twice.step = 1e-2;
    twice.tolerance = 5e-3;
    twice.build = [attrs](Graph& graph, const std::vector<Output>& in) {
      const auto to = [](Output x, DType t) { return op1("Cast", {x}, {{"DstT", t}}); };
      Output dy = to(in[0], DType::kFloat), x = to(in[1], DType::kFloat), scale = to(in[2], DType::kFloat);
      const Tensor none(DType::kFloat, {0});
      Output empty = add_op(graph, "Const", {}, {{"dtype", DType::kFloat}, {"value", none}})->output();
      AttrMap forward_attrs = attrs;
      Node* forward = add_op(graph, "FusedBatchNormV3", {x, scale, scale, empty, empty}, forward_attrs);
      // TensorFlow's derivative takes the statistics for functions of x, so the paths through them are cut here.
      const auto kept = [&](int i) { return op1("StopGradient", {forward->output(i)}); };
      Node* grad = add_op(graph, "FusedBatchNormGradV3", {dy, x, scale, kept(3), kept(4), kept(5)}, attrs);
      return std::vector{to(grad->output(0), DType::kDouble), to(grad->output(1), DType::kDouble),
                         to(grad->output(2), DType::kDouble)};
    };
  }
  add_float_op(s, "LRN", {s.value({1, 2, 2, 5})}, {{"depth_radius", 1}, {"alpha", 0.5f}, {"bias", 1.5f}}, {0});
}

// Arrays of three vectors: filled in one of three ways, read in one of three.
struct Array {
  Output handle;
  Output flow;
};

Array filled_array(Graph& graph, const std::string& how, Output x) {
  Node* made = add_op(graph, "TensorArrayV3", {constant(graph, 3, DType::kInt32)},
                      {{"dtype", DType::kDouble}, {"clear_after_read", false}});
  Array array{made->output(0), made->output(1)};
  if (how == "TensorArrayScatterV3") {
    array.flow = op1(how, {array.handle, range(graph, 0, 3), x, array.flow});
  } else if (how == "TensorArraySplitV3") {
    Output lengths = constant(graph, Tensor::vector<std::int64_t>({2, 2, 2}));
    array.flow = op1(how, {array.handle, reshape(x, {6}), lengths, array.flow});
  } else {
    for (int i = 0; i < 3; ++i) {
      Output row = strided_slice(x, {i}, {i + 1}, {1}, {.shrink_axis_mask = 1});
      array.flow = op1("TensorArrayWriteV3", {array.handle, constant(graph, i, DType::kInt32), row, array.flow});
    }
  }
  return array;
}

std::vector<Output> read_array(Graph& graph, const std::string& how, const Array& array) {
  const AttrMap attrs = {{"dtype", DType::kDouble}};
  if (how == "TensorArrayGatherV3") {
    Output twice = constant(graph, Tensor::vector<std::int32_t>({2, 0, 2}));
    return {op1(how, {array.handle, twice, array.flow}, attrs)};
  }
  if (how == "TensorArrayConcatV3") return {op1(how, {array.handle, array.flow}, attrs)};
  std::vector<Output> rows;
  for (int i : {1, 2, 1, 0}) {
    rows.push_back(op1("TensorArrayReadV3", {array.handle, constant(graph, i, DType::kInt32), array.flow}, attrs));
  }
  return rows;
}

void add_arrays(Samples& s) {
  for (const std::string write : {"TensorArrayWriteV3", "TensorArrayScatterV3", "TensorArraySplitV3"}) {
    for (const std::string read : {"TensorArrayReadV3", "TensorArrayGatherV3", "TensorArrayConcatV3"}) {
      const auto build = [write, read](Graph& graph, const std::vector<Output>& in) {
        return read_array(graph, read, filled_array(graph, write, in[0]));
      };
      s.add(write, {s.value({3, 2})}).build = build;
      s.add(read, {s.value({3, 2})}).build = build;
    }
  }
}

// Images in double, outputs in float.
void add_images(Samples& s) {
  const auto add = [&s](const std::string& op, std::vector<SampleInput> inputs, AttrMap attrs = {}) {
    OpSample& sample = s.add(op, std::move(inputs), attrs);
    sample.step = 1e-2;
    sample.tolerance = 5e-3;
    sample.build = [op, attrs](Graph& graph, const std::vector<Output>& in) {
      Node* node = add_op(graph, op, in, attrs);
      return std::vector<Output>{op1("Cast", {node->output(0)}, {{"DstT", DType::kDouble}})};
    };
  };
  for (const bool half : {false, true}) {
    for (const char* op : {"ResizeBilinear", "ResizeBicubic", "ResizeNearestNeighbor"}) {
      for (const Shape& shape : {Shape{2, 3, 4, 3}, Shape{1, 5, 2, 9}}) {
        add(op, {s.value(shape), Samples::i32({4, 5})}, {{"half_pixel_centers", half}});
      }
    }
  }
  add("ResizeBilinear", {s.value({1, 4, 4, 1}), Samples::i32({6, 3})}, {{"align_corners", true}});
  for (const char* filter : {"lanczos3", "triangle"}) {
    OpSample& sample = s.add("ScaleAndTranslate", {s.value({1, 4, 5, 2}), Samples::i32({3, 6})});
    sample.step = 1e-2;
    sample.tolerance = 5e-3;
    sample.build = [filter](Graph& graph, const std::vector<Output>& in) {
      const Output image = op1("Cast", {in[0]}, {{"DstT", DType::kFloat}});
      const Output scale = constant(graph, Tensor::vector<float>({0.75f, 1.25f}));
      const Output shift = constant(graph, Tensor::vector<float>({0.25f, -0.5f}));
      const Output scaled = op1("ScaleAndTranslate", {image, in[1], scale, shift}, {{"kernel_type", filter}});
      return std::vector<Output>{op1("Cast", {scaled}, {{"DstT", DType::kDouble}})};
    };
  }
  for (const char* method : {"bilinear", "nearest"}) {
    OpSample& sample = s.add("CropAndResize", {s.value({2, 5, 4, 2})});
    sample.step = 1e-2;
    sample.tolerance = 5e-3;
    sample.build = [method](Graph& graph, const std::vector<Output>& in) {
      const Output boxes =
          constant(graph, Tensor::of<float>({2, 4}, {0.11f, 0.12f, 0.83f, 0.9f, -0.1f, 0.2f, 0.77f, 1.1f}));
      const Output index = constant(graph, Tensor::vector<std::int32_t>({1, 0}));
      const Output size = constant(graph, Tensor::vector<std::int32_t>({3, 4}));
      const Output crops = op1("CropAndResize", {in[0], boxes, index, size}, {{"method", method}});
      return std::vector<Output>{op1("Cast", {crops}, {{"DstT", DType::kDouble}})};
    };
  }
  // By the boxes too: bilinear, on an image without kinks between its pixels.
  OpSample& boxes = s.add("CropAndResize", {s.value({2, 4}, 0.15, 0.85)});
  boxes.step = 1e-3;
  boxes.tolerance = 5e-3;
  boxes.build = [](Graph& graph, const std::vector<Output>& in) {
    Tensor image(DType::kFloat, Shape{1, 6, 5, 1});
    for (std::int64_t i = 0; i < 30; ++i)
      image.data<float>()[i] = 0.3f * static_cast<float>(i / 5) - 0.2f * static_cast<float>(i % 5);
    const Output index = constant(graph, Tensor::vector<std::int32_t>({0, 0}));
    const Output size = constant(graph, Tensor::vector<std::int32_t>({3, 2}));
    const Output corners = op1("Cast", {in[0]}, {{"DstT", DType::kFloat}});
    const Output crops = op1("CropAndResize", {constant(graph, image), corners, index, size});
    return std::vector<Output>{op1("Cast", {crops}, {{"DstT", DType::kDouble}})};
  };
  // One of every order of colours.
  Tensor colors(DType::kDouble, Shape{6, 3});
  const double orders[6][3] = {{.9, .5, .2}, {.8, .1, .4}, {.3, .7, .2}, {.15, .6, .4}, {.5, .25, .75}, {.1, .3, .65}};
  for (int i = 0; i < 18; ++i) colors.data<double>()[i] = orders[i / 3][i % 3];
  s.add("RGBToHSV", {{colors, Kind::kValue}});
}

}  // namespace

std::vector<OpSample> gradient_samples() {
  Samples samples;
  add_plumbing(samples);
  add_arithmetic(samples);
  add_functions(samples);
  add_choices(samples);
  add_layout(samples);
  add_slices(samples);
  add_gathers(samples);
  add_variables(samples);
  add_reductions(samples);
  add_products(samples);
  add_activations(samples);
  add_losses(samples);
  add_lists(samples);
  add_late_plumbing(samples);
  add_convolutions(samples);
  add_pools(samples);
  add_normalisations(samples);
  add_arrays(samples);
  add_images(samples);
  add_list_parts(samples);
  add_recurrent(samples);
  std::vector<OpSample> all = samples.take();
  std::ranges::move(layout_samples(), std::back_inserter(all));
  for (OpSample& sample : sparse_gradient_samples()) all.push_back(std::move(sample));
  return all;
}

}  // namespace tutti::testing
