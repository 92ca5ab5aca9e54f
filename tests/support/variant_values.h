// Variants of every kind that can be written, and how to compare what came back.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tutti/core/optional.h"
#include "tutti/core/strings.h"
#include "tutti/core/tensor.h"
#include "tutti/core/tensor_list.h"
#include "tutti/core/tensor_variant.h"

namespace tutti::testing {

inline Tensor list_of(DType dtype, PartialShape shape, std::vector<Tensor> items, std::int64_t max_items = -1) {
  return Tensor::scalar(Variant(std::make_shared<TensorList>(dtype, std::move(shape), std::move(items), max_items)));
}

inline Tensor optional_of(std::vector<Tensor> components) {
  return Tensor::scalar(Variant(std::make_shared<Optional>(std::move(components))));
}

// All there is to a value, objects within objects included: equal texts are equal values.
inline std::string whole_text(const Tensor& tensor) {
  if (!tensor.has_value()) return "unset";
  std::string text = str_cat(dtype_name(tensor.dtype()), tensor.shape(), "{");
  const auto add_all = [&text](const std::vector<Tensor>& tensors) {
    for (const Tensor& held : tensors) text += whole_text(held) + ";";
  };
  if (tensor.dtype() == DType::kVariant) {
    for (const Variant& element : tensor.flat<Variant>()) {
      if (const auto* list = element.get<TensorList>()) {
        text += str_cat("list ", dtype_name(list->dtype()), list->element_shape(), list->max_items(), ":");
        add_all(list->items());
      } else if (const auto* optional = element.get<Optional>()) {
        text += "optional:";
        add_all(optional->components());
      } else if (const auto* held = element.get<TensorVariant>()) {
        text += "tensor:" + whole_text(held->tensor());
      } else {
        text += element.has_value() ? element.object()->debug_string() : "nothing";
      }
      text += "|";
    }
  } else if (tensor.dtype() == DType::kString) {
    for (const std::string& value : tensor.flat<std::string>()) text += str_cat(value.size(), ":", value);
  } else if (tensor.dtype() == DType::kResource) {
    for (const ResourceHandle& value : tensor.flat<ResourceHandle>()) {
      text += str_cat(value.device(), ",", value.container(), ",", value.name(), ";");
    }
  } else {
    text.append(static_cast<const char*>(tensor.raw()), tensor.bytes());
  }
  return text + "}";
}

// Tensors of some value of each type of numbers, and strings.
inline Tensor counted(DType dtype, const Shape& shape) {
  Tensor tensor(dtype, shape);
  if (dtype == DType::kString) {
    int i = 0;
    for (std::string& value : tensor.flat<std::string>()) value = std::string(static_cast<std::size_t>(i++), 's');
    return tensor;
  }
  auto* bytes = static_cast<std::uint8_t*>(tensor.raw());
  for (std::size_t i = 0; i < tensor.bytes(); ++i) bytes[i] = static_cast<std::uint8_t>(i % 2);
  return tensor;
}

inline std::vector<Tensor> variant_samples() {
  const Tensor pair = list_of(DType::kFloat, {2}, {Tensor::vector<float>({1, 2}), Tensor::vector<float>({3, 4})});
  const Tensor unset =
      list_of(DType::kInt32, PartialShape(), {Tensor(), Tensor::vector<std::int32_t>({5, 6}), Tensor()});
  const Tensor words = list_of(DType::kString, {-1}, {Tensor::vector<std::string>({"a", "", "ccc"})}, 7);
  const Tensor values = optional_of({Tensor::scalar(1.5f), Tensor::vector<std::string>({"a", "b"}), pair});
  const Tensor lists = list_of(DType::kVariant, PartialShape::scalar(), {pair, Tensor(), unset});
  Tensor three(DType::kVariant, {3});
  three.data<Variant>()[0] = pair.scalar<Variant>();
  three.data<Variant>()[2] = values.scalar<Variant>();
  std::vector<Tensor> samples{
      list_of(DType::kFloat, PartialShape(), {}),
      list_of(DType::kString, {-1, 3}, {}, 7),
      list_of(DType::kInt64, {0}, {Tensor(DType::kInt64, {0}), Tensor(DType::kInt64, {0})}),
      list_of(DType::kFloat, {-1}, {Tensor(), Tensor(), Tensor()}),
      pair,
      unset,
      words,
      lists,
      list_of(DType::kVariant, PartialShape(), {lists, lists}),
      optional_of({}),
      values,
      optional_of({optional_of({}), lists}),
      Tensor::scalar(Variant(std::make_shared<TensorVariant>(Tensor::vector<double>({1, -1})))),
      three,
      Tensor(DType::kVariant, {0, 2}),
      Tensor(DType::kVariant, {4}),
      list_of(DType::kFloat, {1000}, {counted(DType::kFloat, {1000}), counted(DType::kFloat, {1000})})};
  for (int number = 1; number <= kMaxDType; ++number) {
    const auto dtype = static_cast<DType>(number);
    if (!is_valid_dtype(number) || dtype == DType::kResource || dtype == DType::kVariant) continue;
    samples.push_back(
        list_of(dtype, PartialShape(), {counted(dtype, {3}), counted(dtype, {}), counted(dtype, {2, 2})}));
  }
  return samples;
}

}  // namespace tutti::testing
