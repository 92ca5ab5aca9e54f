// The element of a kVariant tensor: any immutable object, such as a tensor list or a dataset.
#pragma once

#include <memory>
#include <string>

namespace tutti {

class VariantObject {
 public:
  virtual ~VariantObject() = default;
  virtual std::string type_name() const = 0;
  virtual std::string debug_string() const = 0;
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
