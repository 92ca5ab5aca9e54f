// The element of a kVariant tensor: any immutable object, such as a tensor list or a dataset.
#pragma once

#include <memory>
#include <string>

namespace tutti {

// Objects that would lie deeper in one another than this are refused: the outer ones destroy the inner ones, on the
// stack.
inline constexpr int kMaxVariantDepth = 100;

class VariantObject {
 public:
  // `depth`: one more than that of the deepest object held.
  explicit VariantObject(int depth = 1) : depth_(depth) {}
  virtual ~VariantObject() = default;
  int depth() const { return depth_; }
  virtual std::string type_name() const = 0;
  virtual std::string debug_string() const = 0;

 private:
  const int depth_;
};

class Variant {
 public:
  Variant() = default;
  explicit Variant(std::shared_ptr<const VariantObject> object) : object_(std::move(object)) {}

  bool has_value() const { return object_ != nullptr; }
  // Null when the object is of another class.
  template <typename T>
  const T* get() const {
    return dynamic_cast<const T*>(object_.get());
  }
  const std::shared_ptr<const VariantObject>& object() const { return object_; }

 private:
  std::shared_ptr<const VariantObject> object_;
};

}  // namespace tutti
