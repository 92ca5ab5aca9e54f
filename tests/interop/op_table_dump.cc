// Prints every row of the op table as JSON, for check_op_table.py, check_op_dtypes.py, drawn/generate.py and
// scripts/op_docs.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tutti/kernels/ref/reference.h"
#include "tutti/ops/op_table.h"

namespace tutti::interop {
namespace {

using nlohmann::json;

json arg_json(const ArgDef& arg) {
  json out{{"name", arg.name}};
  if (arg.is_ref) out["is_ref"] = true;
  if (arg.dtype != DType::kInvalid) out["type"] = std::string(dtype_name(arg.dtype));
  if (!arg.type_attr.empty()) out["type_attr"] = arg.type_attr;
  if (!arg.type_list_attr.empty()) out["type_list_attr"] = arg.type_list_attr;
  if (!arg.number_attr.empty()) out["number_attr"] = arg.number_attr;
  return out;
}

json shape_json(const PartialShape& shape) {
  if (!shape.has_rank()) return nullptr;
  return std::vector<std::int64_t>(shape.dims().begin(), shape.dims().end());
}

// Defaults are plain values; tensors and functions have none in TensorFlow's table.
json value_json(const AttrValue& value) {
  return std::visit(
      [&](const auto& v) -> json {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, DType>) {
          return std::string(dtype_name(v));
        } else if constexpr (std::is_same_v<T, PartialShape>) {
          return shape_json(v);
        } else if constexpr (std::is_same_v<T, std::vector<DType>>) {
          json list = json::array();
          for (DType dtype : v) list.push_back(std::string(dtype_name(dtype)));
          return list;
        } else if constexpr (std::is_same_v<T, std::vector<PartialShape>>) {
          json list = json::array();
          for (const PartialShape& shape : v) list.push_back(shape_json(shape));
          return list;
        } else if constexpr (std::is_same_v<T, EmptyList>) {
          return json::array();
        } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string> ||
                             std::is_same_v<T, std::vector<std::string>> ||
                             std::is_same_v<T, std::vector<std::int64_t>> || std::is_same_v<T, std::vector<float>> ||
                             std::is_same_v<T, std::vector<bool>>) {
          return v;
        } else {
          return value.to_string();
        }
      },
      value.value());
}

json types_json(const DTypeSet& types) {
  json names = json::array();
  for (int number = 1; number <= kMaxDType; ++number) {
    if (is_valid_dtype(number) && types.contains(static_cast<DType>(number))) {
      names.push_back(std::string(dtype_name(static_cast<DType>(number))));
    }
  }
  return names;
}

json attr_json(const AttrDef& attr) {
  json out{{"name", attr.name}, {"kind", attr.kind}};
  if (attr.default_value) out["default"] = value_json(*attr.default_value);
  if (attr.minimum) out["minimum"] = *attr.minimum;
  if (attr.kind == "type" || attr.kind == "list(type)") out["types"] = types_json(attr.allowed_types);
  if (!attr.allowed_strings.empty()) out["strings"] = attr.allowed_strings;
  return out;
}

// --- Kernels are made once in every type that they are declared for. ---

// Some value that the definition allows: numbers and lists are as small as may be, lists of types of floats.
AttrValue some_value(const AttrDef& attr) {
  const auto count = static_cast<std::size_t>(attr.minimum.value_or(0));
  if (attr.kind == "type") {
    for (int number = 1; number <= kMaxDType; ++number) {
      if (is_valid_dtype(number) && attr.allowed_types.contains(static_cast<DType>(number))) {
        return static_cast<DType>(number);
      }
    }
  }
  if (attr.kind == "int") return attr.minimum.value_or(1);
  if (attr.kind == "float") return 0.5f;
  if (attr.kind == "bool") return false;
  if (attr.kind == "string") return attr.allowed_strings.empty() ? std::string() : attr.allowed_strings.front();
  if (attr.kind == "shape") return PartialShape::scalar();
  if (attr.kind == "tensor") return Tensor::scalar(0.0f);
  if (attr.kind == "func") return FunctionRef{.name = "f", .attrs = nullptr};
  if (attr.kind == "list(type)") return std::vector<DType>(count, DType::kFloat);
  if (attr.kind == "list(int)") return std::vector<std::int64_t>(count, 1);
  if (attr.kind == "list(shape)") return std::vector<PartialShape>(count, PartialShape::scalar());
  if (attr.kind == "list(string)") return std::vector<std::string>(count);
  return EmptyList();
}

Status make_kernel(const OpDef& op, const KernelEntry& kernel, DType dtype) {
  AttrMap attrs;
  for (const AttrDef& attr : op.attrs) attrs[attr.name] = attr.default_value ? *attr.default_value : some_value(attr);
  if (attrs.contains(kernel.type_attr)) attrs[kernel.type_attr] = dtype;
  std::vector<EdgeType> inputs, outputs;
  TUTTI_RETURN_IF_ERROR(resolve_types(op, attrs, &inputs, &outputs));
  const KernelInit init{.node = "node",
                        .op = op.name,
                        .attrs = attrs,
                        .input_types = inputs,
                        .output_types = outputs,
                        .device = "/job:localhost/replica:0/task:0/device:CPU:0",
                        .services = {}};
  return kernel.make(init).status();
}

struct MadeTypes {
  DTypeSet made;
  DTypeSet refused;  // for want of code; other errors are about made-up attributes
};

// What becomes of the kernel in the types that it is declared for.
MadeTypes make_in_all_types(const OpDef& op, const KernelEntry& kernel) {
  MadeTypes result;
  const AttrDef* attr = op.find_attr(kernel.type_attr);
  if (attr == nullptr || attr->kind != "type") return result;
  for (int number = 1; number <= kMaxDType; ++number) {
    const auto dtype = static_cast<DType>(number);
    if (!is_valid_dtype(number) || !attr->allowed_types.contains(dtype) || !kernel.types.contains(dtype)) continue;
    const Status status = make_kernel(op, kernel, dtype);
    if (status.ok()) result.made = result.made | DTypeSet(dtype);
    if (status.code() == Code::kUnimplemented) result.refused = result.refused | DTypeSet(dtype);
  }
  return result;
}

json kernels_json(const OpDef& op, const std::vector<KernelEntry>& kernels) {
  json out = json::array();
  for (const KernelEntry& kernel : kernels) {
    const MadeTypes made = make_in_all_types(op, kernel);
    out.push_back({{"device", kernel.device_type},
                   {"attr", kernel.type_attr},
                   {"types", types_json(kernel.types)},
                   {"made", types_json(made.made)},
                   {"refused", types_json(made.refused)}});
  }
  return out;
}

json op_json(const OpDef& op, const OpTable& table) {
  json out{{"name", op.name}, {"inputs", json::array()}, {"outputs", json::array()}, {"attrs", json::array()}};
  for (const ArgDef& arg : op.inputs) out["inputs"].push_back(arg_json(arg));
  for (const ArgDef& arg : op.outputs) out["outputs"].push_back(arg_json(arg));
  for (const AttrDef& attr : op.attrs) out["attrs"].push_back(attr_json(attr));
  out["stateful"] = op.has(kStateful);
  out["gradient"] = op.grad ? "yes" : op.no_gradient ? "stops" : "none";
  out["kernels"] = kernels_json(op, table.kernels(op.name));
  out["reference"] = find_reference(op.name) != nullptr;
  return out;
}

}  // namespace
}  // namespace tutti::interop

int main() {
  const auto table = tutti::builtin_ops();
  nlohmann::json rows = nlohmann::json::array();
  for (const tutti::OpDef* op : table->registry()->all()) rows.push_back(tutti::interop::op_json(*op, *table));
  std::puts(rows.dump(1).c_str());
}
