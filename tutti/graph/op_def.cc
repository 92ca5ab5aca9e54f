#include "tutti/graph/op_def.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>

namespace tutti {
namespace {

// A node may have this many inputs or outputs. Attributes from outside give the number, so it is capped
// before anything of that size is made.
constexpr std::int64_t kMaxEdges = 1 << 16;

// Reads the notation of signatures and attributes. All `take` functions skip white space first.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) {}

  bool at_end() {
    skip_space();
    return rest_.empty();
  }
  bool take(std::string_view token) {
    skip_space();
    if (rest_.substr(0, token.size()) != token) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  // Letters, digits, '_', and what numbers need: '.', '-', '+'.
  std::string_view take_word() {
    skip_space();
    std::size_t n = 0;
    while (n < rest_.size() && is_word_char(n)) ++n;
    std::string_view word = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return word;
  }
  // 'text'; nothing when there is no closing quote.
  std::optional<std::string> take_quoted() {
    if (!take("'")) return std::nullopt;
    std::size_t end = rest_.find('\'');
    if (end == std::string_view::npos) return std::nullopt;
    std::string text(rest_.substr(0, end));
    rest_.remove_prefix(end + 1);
    return text;
  }
  bool next_is(char c) {
    skip_space();
    return !rest_.empty() && rest_[0] == c;
  }
  Status error(std::string_view expected) const {
    return internal_error("expected ", expected, " at \"", rest_.substr(0, 40), "\"");
  }

 private:
  void skip_space() {
    while (!rest_.empty() && std::isspace(static_cast<unsigned char>(rest_[0]))) rest_.remove_prefix(1);
  }
  bool is_word_char(std::size_t i) const {
    char c = rest_[i];
    if (c == '-') return i + 1 >= rest_.size() || rest_[i + 1] != '>';  // not the arrow
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '+';
  }

  std::string_view rest_;
};

std::optional<DTypeSet> named_set(std::string_view name) {
  if (name == "floats") return kFloats;
  if (name == "reals") return kReals;
  if (name == "numbers") return kNumbers;
  if (name == "indices") return kIndexTypes;
  if (name == "plain") return kPlain;
  DType dtype = dtype_from_name(name);
  if (dtype == DType::kInvalid) return std::nullopt;
  return DTypeSet{dtype};
}

// After the opening brace: 'SAME', 'VALID'} or int32, floats}. Sets the kind and what is allowed.
Status parse_choices(Scanner& in, AttrDef* attr) {
  DTypeSet types;
  while (true) {
    if (in.next_is('\'')) {
      std::optional<std::string> choice = in.take_quoted();
      if (!choice) return in.error("a closing quote");
      attr->allowed_strings.push_back(*choice);
    } else {
      std::string_view word = in.take_word();
      std::optional<DTypeSet> set = named_set(word);
      if (!set) return internal_error("\"", word, "\" is no type and no set of types");
      types = types | *set;
    }
    if (in.take("}")) break;
    if (!in.take(",")) return in.error("',' or '}'");
  }
  const bool strings = !attr->allowed_strings.empty();
  if (strings && types.bits != 0) return internal_error("strings and types in one set");
  attr->kind = strings ? "string" : "type";
  if (!strings) attr->allowed_types = types;
  return {};
}

bool is_element_kind(std::string_view kind) {
  static constexpr std::string_view kKinds[] = {"string", "int", "float", "bool", "type", "shape", "tensor", "func"};
  return std::find(std::begin(kKinds), std::end(kKinds), kind) != std::end(kKinds);
}

Status parse_element_kind(Scanner& in, AttrDef* attr) {
  if (in.take("{")) return parse_choices(in, attr);
  attr->kind = in.take_word();
  if (!is_element_kind(attr->kind)) return internal_error("unknown kind \"", attr->kind, "\"");
  return {};
}

Status parse_kind(Scanner& in, AttrDef* attr) {
  if (!in.take("list(")) return parse_element_kind(in, attr);
  TUTTI_RETURN_IF_ERROR(parse_element_kind(in, attr));
  if (!in.take(")")) return in.error("')'");
  attr->kind = str_cat("list(", attr->kind, ")");
  return {};
}

Result<std::int64_t> parse_int(Scanner& in) {
  std::int64_t value = 0;
  std::string_view word = in.take_word();
  if (!parse_int64(word, &value)) return internal_error("\"", word, "\" is no integer");
  return value;
}

Result<float> parse_float(Scanner& in) {
  std::string word(in.take_word());
  char* end = nullptr;
  float value = std::strtof(word.c_str(), &end);
  if (word.empty() || *end != '\0') return internal_error("\"", word, "\" is no number");
  return value;
}

// "[a, b]" with `parse` for each element.
template <typename T, typename Parse>
Result<std::vector<T>> parse_list(Scanner& in, Parse parse) {
  std::vector<T> values;
  if (!in.take("[")) return in.error("'['");
  if (in.take("]")) return values;
  while (true) {
    TUTTI_ASSIGN_OR_RETURN(T value, parse(in));
    values.push_back(std::move(value));
    if (in.take("]")) return values;
    if (!in.take(",")) return in.error("',' or ']'");
  }
}

Result<bool> parse_bool(Scanner& in) {
  std::string_view word = in.take_word();
  if (word != "true" && word != "false") return internal_error("\"", word, "\" is no bool");
  return word == "true";
}

Result<std::string> parse_string(Scanner& in) {
  std::optional<std::string> text = in.take_quoted();
  if (!text) return in.error("a quoted string");
  return *text;
}

Result<DType> parse_type(Scanner& in) {
  std::string_view word = in.take_word();
  DType dtype = dtype_from_name(word);
  if (dtype == DType::kInvalid) return internal_error("\"", word, "\" is no type");
  return dtype;
}

Result<PartialShape> parse_shape(Scanner& in) {
  if (in.take("unknown")) return PartialShape::unknown();
  TUTTI_ASSIGN_OR_RETURN(std::vector<std::int64_t> dims, parse_list<std::int64_t>(in, parse_int));
  return PartialShape::create(std::move(dims));
}

// The only tensors that ops have for defaults: vectors of bytes, "uint8[255, 0]".
Result<Tensor> parse_tensor(Scanner& in) {
  if (!in.take("uint8")) return in.error("'uint8'");
  TUTTI_ASSIGN_OR_RETURN(std::vector<std::int64_t> values, parse_list<std::int64_t>(in, parse_int));
  Tensor tensor(DType::kUint8, Shape{static_cast<std::int64_t>(values.size())});
  std::copy(values.begin(), values.end(), tensor.data<std::uint8_t>());
  return tensor;
}

template <typename T>
Result<AttrValue> as_attr(Result<T> value) {
  if (!value.ok()) return value.status();
  return AttrValue(*std::move(value));
}

AttrValue empty_list_of(std::string_view kind) {
  if (kind == "list(string)") return std::vector<std::string>{};
  if (kind == "list(int)") return std::vector<std::int64_t>{};
  if (kind == "list(float)") return std::vector<float>{};
  if (kind == "list(bool)") return std::vector<bool>{};
  if (kind == "list(type)") return std::vector<DType>{};
  if (kind == "list(shape)") return std::vector<PartialShape>{};
  if (kind == "list(tensor)") return std::vector<Tensor>{};
  if (kind == "list(func)") return std::vector<FunctionRef>{};
  return EmptyList{};
}

Result<AttrValue> parse_default(Scanner& in, std::string_view kind) {
  if (kind == "int") return as_attr(parse_int(in));
  if (kind == "float") return as_attr(parse_float(in));
  if (kind == "bool") return as_attr(parse_bool(in));
  if (kind == "string") return as_attr(parse_string(in));
  if (kind == "type") return as_attr(parse_type(in));
  if (kind == "shape") return as_attr(parse_shape(in));
  if (kind == "tensor") return as_attr(parse_tensor(in));
  if (kind == "list(int)") return as_attr(parse_list<std::int64_t>(in, parse_int));
  if (kind == "list(float)") return as_attr(parse_list<float>(in, parse_float));
  if (kind == "list(bool)") return as_attr(parse_list<bool>(in, parse_bool));
  if (kind == "list(string)") return as_attr(parse_list<std::string>(in, parse_string));
  if (kind == "list(type)") return as_attr(parse_list<DType>(in, parse_type));
  if (kind == "list(shape)") return as_attr(parse_list<PartialShape>(in, parse_shape));
  if (in.take("[") && in.take("]")) return empty_list_of(kind);
  return internal_error("attributes of kind ", kind, " have no notation for a default");
}

Status parse_attrs(std::string_view text, std::vector<AttrDef>* attrs) {
  Scanner in(text);
  while (!in.at_end()) {
    AttrDef attr;
    attr.name = in.take_word();
    if (attr.name.empty()) return in.error("the name of an attribute");
    if (!in.take(":")) return in.error("':'");
    TUTTI_RETURN_IF_ERROR(parse_kind(in, &attr).with_context(attr.name));
    if (in.take(">=")) {
      TUTTI_ASSIGN_OR_RETURN(attr.minimum, parse_int(in));
    }
    if (in.take("=")) {
      Result<AttrValue> value = parse_default(in, attr.kind);
      if (!value.ok()) return value.status().with_context(attr.name);
      attr.default_value = *std::move(value);
    }
    attrs->push_back(std::move(attr));
    if (!in.take(";") && !in.at_end()) return in.error("';'");
  }
  return {};
}

Status set_arg_type(std::string_view word, const OpDef& op, ArgDef* arg) {
  if (const AttrDef* attr = op.find_attr(word)) {
    if (attr->kind == "type") {
      arg->type_attr = word;
    } else if (attr->kind == "list(type)") {
      arg->type_list_attr = word;
    } else {
      return internal_error("attribute ", word, " of kind ", attr->kind, " used as a type");
    }
    return {};
  }
  arg->dtype = dtype_from_name(word);
  if (arg->dtype == DType::kInvalid) return internal_error("\"", word, "\" is no type and no attribute");
  return {};
}

// "T", "N * T", "Ref(T)", "N * Ref(T)", "Ref(N * T)".
Status parse_arg_type(Scanner& in, const OpDef& op, ArgDef* arg) {
  int open = 0;
  while (true) {
    if (in.take("Ref(")) {
      arg->is_ref = true;
      ++open;
      continue;
    }
    std::string_view word = in.take_word();
    if (!in.take("*")) {
      TUTTI_RETURN_IF_ERROR(set_arg_type(word, op, arg));
      break;
    }
    const AttrDef* number = op.find_attr(word);
    if (number == nullptr || number->kind != "int") return internal_error("\"", word, "\" is no int attribute");
    arg->number_attr = word;
  }
  for (; open > 0; --open) {
    if (!in.take(")")) return in.error("')'");
  }
  return {};
}

Status parse_args(Scanner& in, const OpDef& op, bool until_arrow, std::vector<ArgDef>* args) {
  while (true) {
    if (args->empty() && (until_arrow ? in.take("->") : in.at_end())) return {};
    ArgDef arg;
    arg.name = in.take_word();
    if (arg.name.empty() || !in.take(":")) return in.error("\"name: type\"");
    TUTTI_RETURN_IF_ERROR(parse_arg_type(in, op, &arg).with_context(arg.name));
    args->push_back(std::move(arg));
    if (in.take(",")) continue;
    if (until_arrow ? in.take("->") : in.at_end()) return {};
    return in.error(until_arrow ? "',' or '->'" : "',' or the end");
  }
}

Status parse_into(std::string_view signature, std::string_view attrs, OpDef* op) {
  TUTTI_RETURN_IF_ERROR(parse_attrs(attrs, &op->attrs).with_context("attributes"));
  Scanner in(signature);
  TUTTI_RETURN_IF_ERROR(parse_args(in, *op, true, &op->inputs).with_context("inputs"));
  return parse_args(in, *op, false, &op->outputs).with_context("outputs");
}

// --- Checks of attribute values. ---

bool is_list_kind(std::string_view kind) { return kind.substr(0, 5) == "list("; }

struct LengthOf {
  template <typename T>
  std::int64_t operator()(const std::vector<T>& list) const {
    return static_cast<std::int64_t>(list.size());
  }
  template <typename T>
  std::int64_t operator()(const T&) const {
    return 0;
  }
};

Status check_minimum(const AttrDef& def, const AttrValue& value) {
  if (!def.minimum) return {};
  const std::int64_t* number = value.get<std::int64_t>();
  if (number != nullptr) {
    if (*number >= *def.minimum) return {};
    return invalid_argument("attribute ", def.name, " is ", *number, ", must be at least ", *def.minimum);
  }
  if (!is_list_kind(def.kind)) return {};
  std::int64_t length = std::visit(LengthOf{}, value.value());
  if (length >= *def.minimum) return {};
  return invalid_argument("attribute ", def.name, " has ", length, " elements, must have at least ", *def.minimum);
}

std::string set_text(DTypeSet set) {
  std::vector<std::string_view> names;
  for (int i = 1; i <= kMaxDType; ++i) {
    if (set.contains(static_cast<DType>(i))) names.push_back(dtype_name(static_cast<DType>(i)));
  }
  return str_join(names, ", ");
}

Status check_type(const AttrDef& def, DType dtype) {
  if (is_valid_dtype(static_cast<int>(dtype)) && def.allowed_types.contains(dtype)) return {};
  return invalid_argument("attribute ", def.name, " is ", dtype_name(dtype), ", must be one of {",
                          set_text(def.allowed_types), "}");
}

Status check_string(const AttrDef& def, const std::string& text) {
  const auto& allowed = def.allowed_strings;
  if (allowed.empty() || std::find(allowed.begin(), allowed.end(), text) != allowed.end()) return {};
  return invalid_argument("attribute ", def.name, " is '", printable(text), "', must be one of {",
                          str_join(allowed, ", "), "}");
}

Status check_allowed(const AttrDef& def, const AttrValue& value) {
  if (const auto* dtype = value.get<DType>()) return check_type(def, *dtype);
  if (const auto* text = value.get<std::string>()) return check_string(def, *text);
  if (def.kind == "list(type)") {
    for (DType dtype : *value.get<std::vector<DType>>()) TUTTI_RETURN_IF_ERROR(check_type(def, dtype));
  }
  if (def.kind == "list(string)") {
    for (const std::string& text : *value.get<std::vector<std::string>>()) {
      TUTTI_RETURN_IF_ERROR(check_string(def, text));
    }
  }
  return {};
}

Status check_attr(const AttrDef& def, const AttrValue& value) {
  if (value.kind() != def.kind) {
    return invalid_argument("attribute ", def.name, " must be of kind ", def.kind, ", got ",
                            value.kind().empty() ? "nothing" : value.kind(), " ", printable(value.to_string()));
  }
  TUTTI_RETURN_IF_ERROR(check_minimum(def, value));
  return check_allowed(def, value);
}

// --- Types of arguments. ---

template <typename T>
Result<const T*> required_attr(const AttrMap& attrs, std::string_view name) {
  auto it = attrs.find(name);
  const T* value = it == attrs.end() ? nullptr : it->second.template get<T>();
  if (value == nullptr) return invalid_argument("attribute ", name, " is missing");
  return value;
}

Status append_types(const ArgDef& arg, const AttrMap& attrs, std::vector<EdgeType>* types) {
  if (!arg.type_list_attr.empty()) {
    TUTTI_ASSIGN_OR_RETURN(const std::vector<DType>* list,
                           required_attr<std::vector<DType>>(attrs, arg.type_list_attr));
    if (static_cast<std::int64_t>(list->size()) > kMaxEdges) {
      return invalid_argument("attribute ", arg.type_list_attr, " has ", list->size(), " types, limit ", kMaxEdges);
    }
    for (DType dtype : *list) types->push_back({dtype, arg.is_ref});
    return {};
  }
  std::int64_t number = 1;
  if (!arg.number_attr.empty()) {
    TUTTI_ASSIGN_OR_RETURN(const std::int64_t* n, required_attr<std::int64_t>(attrs, arg.number_attr));
    number = *n;
    if (number < 0 || number > kMaxEdges) {
      return invalid_argument("attribute ", arg.number_attr, " is ", number, ", must be in [0, ", kMaxEdges, "]");
    }
  }
  DType dtype = arg.dtype;
  if (number > 0 && !arg.type_attr.empty()) {
    TUTTI_ASSIGN_OR_RETURN(const DType* attr, required_attr<DType>(attrs, arg.type_attr));
    dtype = *attr;
  }
  types->insert(types->end(), static_cast<std::size_t>(number), EdgeType{dtype, arg.is_ref});
  return {};
}

// The attribute that gives an argument's length; empty when it is one tensor.
const std::string& length_attr(const ArgDef& arg) {
  return arg.type_list_attr.empty() ? arg.number_attr : arg.type_list_attr;
}

// Nothing when `attrs` does not say.
std::optional<std::int64_t> known_length(const ArgDef& arg, const AttrMap& attrs) {
  if (length_attr(arg).empty()) return 1;
  auto it = attrs.find(length_attr(arg));
  if (it == attrs.end()) return std::nullopt;
  if (const auto* number = it->second.get<std::int64_t>()) return *number;
  if (const auto* list = it->second.get<std::vector<DType>>()) return static_cast<std::int64_t>(list->size());
  return std::nullopt;
}

// How many tensors each argument takes of `total`. One attribute may be open: what is left is shared
// equally by the arguments whose length it gives.
Result<std::vector<std::int64_t>> argument_lengths(const OpDef& op, const AttrMap& attrs, std::int64_t total) {
  std::int64_t fixed = 0;
  std::int64_t open = 0;
  std::string open_attr;
  for (const ArgDef& arg : op.inputs) {
    if (std::optional<std::int64_t> length = known_length(arg, attrs)) {
      if (*length < 0 || *length > kMaxEdges) {
        return invalid_argument("attribute ", length_attr(arg), " gives argument ", arg.name, " ", *length,
                                " inputs, must be in [0, ", kMaxEdges, "]");
      }
      fixed += *length;
      continue;
    }
    if (open > 0 && length_attr(arg) != open_attr) {
      return invalid_argument("attributes ", open_attr, " and ", length_attr(arg), " are missing");
    }
    open_attr = length_attr(arg);
    ++open;
  }
  if (open == 0 && fixed != total) return invalid_argument("takes ", fixed, " inputs, got ", total);
  if (fixed > total) return invalid_argument("takes at least ", fixed, " inputs, got ", total);
  if (open > 0 && (total - fixed) % open != 0) {
    return invalid_argument("its ", open, " arguments of length ", open_attr, " cannot share ", total - fixed,
                            " inputs");
  }
  std::vector<std::int64_t> lengths;
  for (const ArgDef& arg : op.inputs) {
    lengths.push_back(known_length(arg, attrs).value_or(open > 0 ? (total - fixed) / open : 0));
  }
  return lengths;
}

void infer_from(const ArgDef& arg, std::span<const EdgeType> types, AttrMap* attrs) {
  if (!arg.type_list_attr.empty()) {
    std::vector<DType> dtypes;
    for (const EdgeType& type : types) dtypes.push_back(type.dtype);
    attrs->try_emplace(arg.type_list_attr, std::move(dtypes));
    return;
  }
  if (!arg.number_attr.empty()) attrs->try_emplace(arg.number_attr, static_cast<std::int64_t>(types.size()));
  if (arg.type_attr.empty()) return;
  for (const EdgeType& type : types) {
    if (type.dtype == DType::kInvalid) continue;  // an input that is still open
    attrs->try_emplace(arg.type_attr, type.dtype);
    return;
  }
}

}  // namespace

const AttrDef* OpDef::find_attr(std::string_view attr) const {
  for (const AttrDef& def : attrs) {
    if (def.name == attr) return &def;
  }
  return nullptr;
}

Result<OpDef> parse_op_def(std::string_view name, std::string_view signature, std::string_view attrs) {
  OpDef op;
  op.name = name;
  Status status = parse_into(signature, attrs, &op);
  if (!status.ok()) return internal_error("op ", name, ": ", status.message());
  for (const AttrDef& attr : op.attrs) {
    if (!attr.default_value) continue;
    Status valid = check_attr(attr, *attr.default_value);
    if (!valid.ok()) return internal_error("op ", name, ": default: ", valid.message());
  }
  return op;
}

Status OpRegistry::add(OpDef op) {
  auto [it, added] = ops_.try_emplace(op.name);
  if (!added) return already_exists("op ", op.name, " is registered already");
  it->second = std::make_unique<OpDef>(std::move(op));
  return {};
}

const OpDef* OpRegistry::find(std::string_view name) const {
  auto it = ops_.find(name);
  return it == ops_.end() ? nullptr : it->second.get();
}

std::vector<const OpDef*> OpRegistry::all() const {
  std::vector<const OpDef*> all;
  for (const auto& [name, op] : ops_) all.push_back(op.get());
  return all;
}

Status resolve_types(const OpDef& op, const AttrMap& attrs, std::vector<EdgeType>* inputs,
                     std::vector<EdgeType>* outputs) {
  inputs->clear();
  outputs->clear();
  for (const ArgDef& arg : op.inputs) TUTTI_RETURN_IF_ERROR(append_types(arg, attrs, inputs));
  for (const ArgDef& arg : op.outputs) TUTTI_RETURN_IF_ERROR(append_types(arg, attrs, outputs));
  return {};
}

Status complete_attrs(const OpDef& op, AttrMap* attrs) {
  AttrMap complete;
  for (auto& [name, value] : *attrs) {
    if (!name.empty() && name[0] == '_' && op.find_attr(name) == nullptr) complete[name] = std::move(value);
  }
  for (const AttrDef& def : op.attrs) {
    auto it = attrs->find(def.name);
    if (it == attrs->end()) {
      if (!def.default_value) {
        return invalid_argument("attribute ", def.name, " of kind ", def.kind, " is missing");
      }
      complete[def.name] = *def.default_value;
      continue;
    }
    AttrValue& value = it->second;
    // The wire does not say of what an empty list is empty.
    if (is_list_kind(def.kind) && std::visit(LengthOf{}, value.value()) == 0 && is_list_kind(value.kind())) {
      value = empty_list_of(def.kind);
    }
    TUTTI_RETURN_IF_ERROR(check_attr(def, value));
    complete[def.name] = std::move(value);
  }
  *attrs = std::move(complete);
  return {};
}

Status infer_attrs(const OpDef& op, const std::vector<EdgeType>& inputs, AttrMap* attrs) {
  TUTTI_ASSIGN_OR_RETURN(std::vector<std::int64_t> lengths,
                         argument_lengths(op, *attrs, static_cast<std::int64_t>(inputs.size())));
  std::span<const EdgeType> rest(inputs);
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    auto length = static_cast<std::size_t>(lengths[i]);
    infer_from(op.inputs[i], rest.first(length), attrs);
    rest = rest.subspan(length);
  }
  return {};
}

}  // namespace tutti
