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

json kernels_json(const std::vector<KernelEntry>& kernels) {
  json out = json::array();
  for (const KernelEntry& kernel : kernels) {
    out.push_back({{"device", kernel.device_type}, {"attr", kernel.type_attr}, {"types", types_json(kernel.types)}});
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
  out["kernels"] = kernels_json(table.kernels(op.name));
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
