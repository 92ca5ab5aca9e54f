#include "tests/graph/test_ops.h"

#include <google/protobuf/text_format.h>

#include <stdexcept>

#include "proto/graph.pb.h"
#include "tutti/graph/shape_inference.h"

namespace tutti::testing {
namespace {

Status const_shape(ShapeContext& c) {
  c.set_output(0, c.attr<Tensor>("value").shape());
  return {};
}

Status matmul_shape(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(PartialShape a, c.with_rank(0, 2));
  TUTTI_ASSIGN_OR_RETURN(PartialShape b, c.with_rank(1, 2));
  if (a.dim(1) >= 0 && b.dim(0) >= 0 && a.dim(1) != b.dim(0)) {
    return invalid_argument("inner dimensions ", a.dim(1), " and ", b.dim(0), " differ");
  }
  c.set_output(0, PartialShape{a.dim(0), b.dim(1)});
  return {};
}

Status reshape_shape(ShapeContext& c) {
  c.set_output(0, c.input_as_shape(1));
  return {};
}

Status read_shape(ShapeContext& c) {
  c.set_output(0, c.resource_shape(0));
  return {};
}

Status shape_shape(ShapeContext& c) {
  c.set_output(0, PartialShape{c.input(0).has_rank() ? c.input(0).rank() : kUnknownDim});
  return {};
}

struct Row {
  const char* name;
  const char* signature;
  const char* attrs;
  ShapeFn shape = nullptr;
  unsigned traits = kNoTraits;
};

template <typename T>
Result<std::vector<Tensor>> compute(const std::string& op, const std::vector<Tensor>& in) {
  if (op == "Identity") return std::vector<Tensor>{in[0]};
  if (op == "Split") {
    const std::int64_t half = in[0].dim(0) / 2;
    return std::vector<Tensor>{in[0].slice(0, half), in[0].slice(half, 2 * half)};
  }
  Tensor out(in[0].dtype(), in[0].shape());
  for (std::int64_t i = 0; i < out.num_elements(); ++i) {
    T a = in[0].flat<T>()[i];
    T b = in.size() > 1 ? in[1].flat<T>()[i] : T();
    if (op == "Add") {
      out.flat<T>()[i] = a + b;
    } else if (op == "Mul") {
      out.flat<T>()[i] = a * b;
    } else if (op == "Neg") {
      out.flat<T>()[i] = -a;
    } else {
      return unimplemented(op);
    }
  }
  return std::vector<Tensor>{out};
}

template <typename Message>
std::string text_to_bytes(const std::string& text) {
  Message message;
  if (!google::protobuf::TextFormat::ParseFromString(text, &message)) throw std::runtime_error("bad text: " + text);
  return message.SerializeAsString();
}

}  // namespace

std::shared_ptr<const OpRegistry> test_ops() {
  static const std::shared_ptr<const OpRegistry> shared = [] {
    const Row rows[] = {
        {"_Arg", "-> output: T", "T: type; index: int >= 0", nullptr, kStateful},
        {"_Retval", "input: T ->", "T: type; index: int >= 0", nullptr, kStateful},
        {"Const", "-> output: dtype", "value: tensor; dtype: type", const_shape},
        {"Placeholder", "-> output: dtype", "dtype: type; shape: shape = unknown", shape::from_attr},
        {"NoOp", "->", ""},
        {"Identity", "input: T -> output: T", "T: type", shape::unchanged, kPassThrough},
        {"Add", "x: T, y: T -> z: T", "T: {numbers}", shape::broadcast, kElementwise | kCommutative},
        {"Mul", "x: T, y: T -> z: T", "T: {numbers}", shape::broadcast, kElementwise | kCommutative},
        {"Sub", "x: T, y: T -> z: T", "T: {numbers}", shape::broadcast, kElementwise},
        {"Neg", "x: T -> y: T", "T: {numbers}", shape::unchanged, kElementwise},
        {"AddN", "inputs: N * T -> sum: T", "N: int >= 1; T: {numbers}", shape::all_same},
        {"MatMul", "a: T, b: T -> product: T", "transpose_a: bool = false; transpose_b: bool = false; T: {floats}",
         matmul_shape},
        {"Sum", "input: T, axis: Tidx -> output: T", "keep_dims: bool = false; T: {numbers}; Tidx: {indices} = int32",
         shape::reduction},
        {"Cast", "x: SrcT -> y: DstT", "SrcT: type; DstT: type", shape::unchanged},
        {"Shape", "input: T -> output: out_type", "T: type; out_type: {indices} = int32", shape_shape, kMetadataOnly},
        {"Rank", "input: T -> output: int32", "T: type", shape::scalar, kMetadataOnly},
        {"Size", "input: T -> output: out_type", "T: type; out_type: {indices} = int32", shape::scalar, kMetadataOnly},
        {"Pack", "values: N * T -> output: T", "N: int >= 1; T: type; axis: int = 0"},
        {"ConcatV2", "values: N * T, axis: Tidx -> output: T", "N: int >= 2; T: type; Tidx: {indices} = int32"},
        {"Reshape", "tensor: T, shape: Tshape -> output: T", "T: type; Tshape: {indices} = int32", reshape_shape},
        {"Split", "value: T -> output: num_split * T", "num_split: int >= 1; T: type"},
        {"Random", "shape: T -> output: float", "T: {indices}", shape::from_shape_input, kStateful},
        {"VariableV2", "-> ref: Ref(dtype)", "shape: shape; dtype: type", shape::from_attr, kStateful},
        {"Assign", "ref: Ref(T), value: T -> output_ref: Ref(T)", "T: type", shape::unchanged, kAllowsUninitialised},
        {"VarHandleOp", "-> resource: resource", "dtype: type; shape: shape", shape::scalar, kStateful},
        {"ReadVariableOp", "resource: resource -> value: dtype", "dtype: type", read_shape, kStateful},
        {"AssignVariableOp", "resource: resource, value: dtype ->", "dtype: type", nullptr, kStateful},
        {"PartitionedCall", "args: Tin -> output: Tout", "Tin: list(type); Tout: list(type); f: func"},
        {"StatefulPartitionedCall", "args: Tin -> output: Tout", "Tin: list(type); Tout: list(type); f: func", nullptr,
         kStateful},
        {"Enter", "data: T -> output: T", "T: type; frame_name: string", nullptr, kControlFlow},
        {"Merge", "inputs: N * T -> output: T, value_index: int32", "T: type; N: int >= 1", nullptr, kControlFlow},
        {"Switch", "data: T, pred: bool -> output_false: T, output_true: T", "T: type", nullptr, kControlFlow},
        {"NextIteration", "data: T -> output: T", "T: type", shape::unchanged, kControlFlow},
        {"Conv", "input: T -> output: T", "T: {floats}; strides: list(int) = [1, 1]; padding: {'SAME', 'VALID'}"},
    };
    auto ops = std::make_shared<OpRegistry>();
    for (const Row& row : rows) {
      OpDef op = parse_op_def(row.name, row.signature, row.attrs).value_or_throw();
      op.shape = row.shape;
      op.traits = row.traits;
      throw_if_error(ops->add(std::move(op)));
    }
    return ops;
  }();
  return shared;
}

std::string graph_def_bytes(const std::string& text) { return text_to_bytes<tensorflow::GraphDef>(text); }
std::string function_def_bytes(const std::string& text) { return text_to_bytes<tensorflow::FunctionDef>(text); }

Node* add(Graph& graph, const std::string& op, std::vector<Output> inputs, AttrMap attrs, const std::string& name) {
  NodeSpec spec{.op = op, .name = name, .inputs = std::move(inputs), .attrs = std::move(attrs)};
  return graph.add_node(std::move(spec)).value_or_throw();
}

Output constant(Graph& graph, const Tensor& value, const std::string& name) {
  return add(graph, "Const", {}, {{"dtype", value.dtype()}, {"value", value}}, name)->output();
}

Output placeholder(Graph& graph, DType dtype, const PartialShape& shape, const std::string& name) {
  return add(graph, "Placeholder", {}, {{"dtype", dtype}, {"shape", shape}}, name)->output();
}

std::vector<std::string> names(const std::vector<Node*>& nodes) {
  std::vector<std::string> result;
  for (const Node* node : nodes) result.push_back(node->name());
  return result;
}

Result<std::vector<Tensor>> TestEvaluator::evaluate(const Node& node, const std::vector<Tensor>& inputs) {
  ++calls;
  if (inputs[0].dtype() == DType::kFloat) return compute<float>(node.op_name(), inputs);
  if (inputs[0].dtype() == DType::kInt32) return compute<std::int32_t>(node.op_name(), inputs);
  return unimplemented(dtype_name(inputs[0].dtype()));
}

}  // namespace tutti::testing
