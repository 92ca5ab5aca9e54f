// Attributes of nodes, as plain values.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "tutti/core/dtype.h"
#include "tutti/core/shape.h"
#include "tutti/core/tensor.h"

namespace tutti {

class AttrValue;
using AttrMap = std::map<std::string, AttrValue, std::less<>>;

// A function of the graph's library, with values for its own attributes.
struct FunctionRef {
  std::string name;
  std::shared_ptr<const AttrMap> attrs;  // null when there are none
  bool operator==(const FunctionRef& other) const;
  // "name" or "name[T=float, n=2]"
  std::string to_string() const;
};

// Inside a function body: the name of the function's attribute to put here when it is called.
struct AttrPlaceholder {
  std::string name;
  bool operator==(const AttrPlaceholder&) const = default;
};

// "list() with nothing in it" has no element type on the wire.
struct EmptyList {
  bool operator==(const EmptyList&) const = default;
};

class AttrValue {
 public:
  using Value = std::variant<std::monostate, std::string, std::int64_t, float, bool, DType, PartialShape, Tensor,
                             FunctionRef, AttrPlaceholder, EmptyList, std::vector<std::string>,
                             std::vector<std::int64_t>, std::vector<float>, std::vector<bool>, std::vector<DType>,
                             std::vector<PartialShape>, std::vector<Tensor>, std::vector<FunctionRef>>;

  AttrValue() = default;
  template <typename T, typename = std::enable_if_t<std::is_constructible_v<Value, T> &&
                                                    !std::is_same_v<std::decay_t<T>, AttrValue>>>
  AttrValue(T value) : value_(std::move(value)) {}  // NOLINT: implicit, so that {"T", DType::kFloat} reads well
  AttrValue(const char* value) : value_(std::string(value)) {}        // NOLINT
  AttrValue(int value) : value_(static_cast<std::int64_t>(value)) {}  // NOLINT

  // Null when it holds another kind. An EmptyList answers as an empty list of any kind.
  template <typename T>
  const T* get() const {
    if (const T* value = std::get_if<T>(&value_)) return value;
    if constexpr (is_list<T>::value) {
      static const T empty;
      if (std::holds_alternative<EmptyList>(value_)) return &empty;
    }
    return nullptr;
  }
  const Value& value() const { return value_; }

  // "int", "list(type)": the text that op definitions use. "" when unset.
  std::string_view kind() const;
  // Floats and tensors compare by bits. Empty lists are equal whatever their kind: the wire does not tell it.
  bool operator==(const AttrValue& other) const;
  std::string to_string() const;

 private:
  template <typename T>
  struct is_list : std::false_type {};
  template <typename E>
  struct is_list<std::vector<E>> : std::true_type {};

  Value value_;
};

}  // namespace tutti
