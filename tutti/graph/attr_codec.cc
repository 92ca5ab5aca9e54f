#include "tutti/graph/attr_codec.h"

#include "proto/attr_value.pb.h"

namespace tutti {
namespace {

using tensorflow::AttrValue_ListValue;

Result<DType> decode_type(int number) {
  if (is_valid_dtype(number)) return static_cast<DType>(number);
  return invalid_argument("unknown type ", number);
}

template <typename T, typename List>
AttrValue plain_list(const List& list) {
  return std::vector<T>(list.begin(), list.end());
}

// `decode` of each message.
template <typename T, typename List, typename Decode>
Result<AttrValue> decoded_list(const List& list, Decode decode) {
  std::vector<T> values;
  values.reserve(list.size());
  for (const auto& element : list) {
    TUTTI_ASSIGN_OR_RETURN(T value, decode(element));
    values.push_back(std::move(value));
  }
  return AttrValue(std::move(values));
}

Result<AttrValue> decode_list(const AttrValue_ListValue& list, ExpansionBudget& budget) {
  const int sizes[] = {list.s_size(),    list.i_size(),     list.f_size(),      list.b_size(),
                       list.type_size(), list.shape_size(), list.tensor_size(), list.func_size()};
  int kinds = 0;
  for (int size : sizes) kinds += size > 0;
  if (kinds == 0) return AttrValue(EmptyList{});
  if (kinds > 1) return invalid_argument("a list with elements of ", kinds, " kinds");
  if (list.s_size() > 0) return plain_list<std::string>(list.s());
  if (list.i_size() > 0) return plain_list<std::int64_t>(list.i());
  if (list.f_size() > 0) return plain_list<float>(list.f());
  if (list.b_size() > 0) return plain_list<bool>(list.b());
  if (list.type_size() > 0) return decoded_list<DType>(list.type(), decode_type);
  if (list.shape_size() > 0) return decoded_list<PartialShape>(list.shape(), decode_shape);
  if (list.tensor_size() > 0) {
    return decoded_list<Tensor>(list.tensor(), [&](const auto& proto) { return decode_tensor(proto, budget); });
  }
  return decoded_list<FunctionRef>(list.func(), [&](const auto& proto) { return decode_function_ref(proto, budget); });
}

template <typename T>
Result<AttrValue> as_attr(Result<T> value) {
  if (!value.ok()) return value.status();
  return AttrValue(*std::move(value));
}

// Writes one kind of value; lists element by element.
struct Encoder {
  tensorflow::AttrValue* proto;

  void operator()(std::monostate) const { proto->clear_value(); }
  void operator()(const std::string& value) const { proto->set_s(value); }
  void operator()(std::int64_t value) const { proto->set_i(value); }
  void operator()(float value) const { proto->set_f(value); }
  void operator()(bool value) const { proto->set_b(value); }
  void operator()(DType value) const { proto->set_type(static_cast<tensorflow::DataType>(value)); }
  void operator()(const PartialShape& value) const { encode_shape(value, proto->mutable_shape()); }
  void operator()(const Tensor& value) const { write_tensor(value, proto->mutable_tensor()); }
  void operator()(const FunctionRef& value) const { encode_function_ref(value, proto->mutable_func()); }
  void operator()(const AttrPlaceholder& value) const { proto->set_placeholder(value.name); }
  void operator()(EmptyList) const { fresh_list(); }
  void operator()(const std::vector<std::string>& values) const {
    auto* list = fresh_list();
    for (const std::string& value : values) list->add_s(value);
  }
  void operator()(const std::vector<std::int64_t>& values) const {
    fresh_list()->mutable_i()->Add(values.begin(), values.end());
  }
  void operator()(const std::vector<float>& values) const {
    fresh_list()->mutable_f()->Add(values.begin(), values.end());
  }
  void operator()(const std::vector<bool>& values) const {
    fresh_list()->mutable_b()->Add(values.begin(), values.end());
  }
  void operator()(const std::vector<DType>& values) const {
    auto* list = fresh_list();
    for (DType value : values) list->add_type(static_cast<tensorflow::DataType>(value));
  }
  void operator()(const std::vector<PartialShape>& values) const {
    auto* list = fresh_list();
    for (const PartialShape& value : values) encode_shape(value, list->add_shape());
  }
  void operator()(const std::vector<Tensor>& values) const {
    auto* list = fresh_list();
    for (const Tensor& value : values) write_tensor(value, list->add_tensor());
  }
  void operator()(const std::vector<FunctionRef>& values) const {
    auto* list = fresh_list();
    for (const FunctionRef& value : values) encode_function_ref(value, list->add_func());
  }

 private:
  AttrValue_ListValue* fresh_list() const {
    proto->mutable_list()->Clear();
    return proto->mutable_list();
  }
  // Variants that cannot be written have type and shape only; attributes from a message never hold those.
  static void write_tensor(const Tensor& value, tensorflow::TensorProto* out) {
    Status status = encode_tensor(value, out);
    (void)status;
  }
};

}  // namespace

Result<AttrValue> decode_attr(const tensorflow::AttrValue& proto, ExpansionBudget& budget) {
  switch (proto.value_case()) {
    case tensorflow::AttrValue::kS:
      return AttrValue(proto.s());
    case tensorflow::AttrValue::kI:
      return AttrValue(static_cast<std::int64_t>(proto.i()));
    case tensorflow::AttrValue::kF:
      return AttrValue(proto.f());
    case tensorflow::AttrValue::kB:
      return AttrValue(proto.b());
    case tensorflow::AttrValue::kType:
      return as_attr(decode_type(proto.type()));
    case tensorflow::AttrValue::kShape:
      return as_attr(decode_shape(proto.shape()));
    case tensorflow::AttrValue::kTensor:
      return as_attr(decode_tensor(proto.tensor(), budget));
    case tensorflow::AttrValue::kPlaceholder:
      return AttrValue(AttrPlaceholder{proto.placeholder()});
    case tensorflow::AttrValue::kFunc:
      return as_attr(decode_function_ref(proto.func(), budget));
    case tensorflow::AttrValue::kList:
      return decode_list(proto.list(), budget);
    case tensorflow::AttrValue::VALUE_NOT_SET:
      break;
  }
  return AttrValue();
}

void encode_attr(const AttrValue& value, tensorflow::AttrValue* proto) { std::visit(Encoder{proto}, value.value()); }

// Nesting is bounded by the parser's own limit.
Result<FunctionRef> decode_function_ref(const tensorflow::NameAttrList& proto, ExpansionBudget& budget) {
  FunctionRef function{proto.name(), nullptr};
  if (proto.attr().empty()) return function;
  auto attrs = std::make_shared<AttrMap>();
  for (const auto& [name, attr] : proto.attr()) {
    Result<AttrValue> value = decode_attr(attr, budget);
    if (!value.ok()) return value.status().with_context(str_cat("attribute ", printable(name)));
    attrs->emplace(name, *std::move(value));
  }
  function.attrs = std::move(attrs);
  return function;
}

void encode_function_ref(const FunctionRef& function, tensorflow::NameAttrList* proto) {
  proto->set_name(function.name);
  proto->clear_attr();
  if (!function.attrs) return;
  for (const auto& [name, value] : *function.attrs) encode_attr(value, &(*proto->mutable_attr())[name]);
}

}  // namespace tutti
