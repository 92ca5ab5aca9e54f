#include "tutti/core/attr_value.h"

#include <array>
#include <bit>

namespace tutti {

namespace {

// In the order of AttrValue::Value.
constexpr std::array<std::string_view, std::variant_size_v<AttrValue::Value>> kKinds = {
    "",           "string",     "int",         "float",        "bool",         "type",      "shape",
    "tensor",     "func",       "placeholder", "list()",       "list(string)", "list(int)", "list(float)",
    "list(bool)", "list(type)", "list(shape)", "list(tensor)", "list(func)",
};

bool same(float a, float b) { return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b); }
bool same(const Tensor& a, const Tensor& b) { return bitwise_equal(a, b); }
template <typename T>
bool same(const T& a, const T& b) {
  return a == b;
}
template <typename E>
bool same(const std::vector<E>& a, const std::vector<E>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const E& x, const E& y) { return same(x, y); });
}

struct IsEmptyList {
  bool operator()(EmptyList) const { return true; }
  template <typename E>
  bool operator()(const std::vector<E>& list) const {
    return list.empty();
  }
  template <typename T>
  bool operator()(const T&) const {
    return false;
  }
};

struct Append {
  std::string& out;

  void operator()(std::monostate) const {}
  void operator()(EmptyList) const { out += "[]"; }
  void operator()(const std::string& value) const {
    out += '"';
    out += printable(value);
    out += '"';
  }
  void operator()(DType value) const { out += dtype_name(value); }
  void operator()(const AttrPlaceholder& value) const {
    out += '$';
    out += value.name;
  }
  template <typename E>
  void operator()(const std::vector<E>& list) const {
    out += '[';
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (i > 0) out += ", ";
      const E element = list[i];
      (*this)(element);
    }
    out += ']';
  }
  template <typename T>
  void operator()(const T& value) const {
    internal::append_piece(out, value);
  }
};

}  // namespace

bool FunctionRef::operator==(const FunctionRef& other) const {
  if (name != other.name) return false;
  static const AttrMap none;
  return (attrs ? *attrs : none) == (other.attrs ? *other.attrs : none);
}

std::string FunctionRef::to_string() const {
  std::string text = name;
  if (!attrs || attrs->empty()) return text;
  const char* separator = "[";
  for (const auto& [key, value] : *attrs) {
    text += separator;
    text += key;
    text += '=';
    text += value.to_string();
    separator = ", ";
  }
  text += ']';
  return text;
}

std::string_view AttrValue::kind() const { return kKinds[value_.index()]; }

bool AttrValue::operator==(const AttrValue& other) const {
  if (value_.index() != other.value_.index()) {
    return std::visit(IsEmptyList{}, value_) && std::visit(IsEmptyList{}, other.value_);
  }
  return std::visit(
      [&other](const auto& mine) { return same(mine, std::get<std::decay_t<decltype(mine)>>(other.value_)); }, value_);
}

std::string AttrValue::to_string() const {
  std::string text;
  std::visit(Append{text}, value_);
  return text;
}

}  // namespace tutti
