#include "tutti/graph/variant_data.h"

#include <algorithm>
#include <climits>
#include <memory>
#include <unordered_map>
#include <utility>

#include "proto/tensor_shape.pb.h"
#include "tutti/core/optional.h"
#include "tutti/core/strings.h"
#include "tutti/core/tensor_list.h"
#include "tutti/core/tensor_variant.h"
#include "tutti/graph/internal/varints.h"

namespace tutti {
namespace {

constexpr std::string_view kListType = "tensorflow::TensorList";
constexpr std::string_view kOptionalType = "tensorflow::data::Optional";
constexpr std::string_view kTensorType = "tensorflow::Tensor";

// About what a tensor takes beside its elements: in memory, and more than that in a message.
constexpr std::int64_t kBytesOfATensor = 256;
// At most what an item that was never set takes.
constexpr std::int64_t kBytesOfAnIndex = 10;

// --- What there is to write ---

// Calls see(tensor) for each tensor that an object of a known type holds; false for another type.
template <typename See>
bool each_tensor(const Variant& variant, See see) {
  if (const auto* list = variant.get<TensorList>()) {
    for (const Tensor& item : list->items()) {
      if (item.has_value()) see(item);
    }
    return true;
  }
  if (const auto* optional = variant.get<Optional>()) {
    for (const Tensor& component : optional->components()) see(component);
    return true;
  }
  if (const auto* held = variant.get<TensorVariant>()) {
    see(held->tensor());
    return true;
  }
  return false;
}

// Adds up what variants take in a message, each object once.
class WrittenSize {
 public:
  // REQUIRES: the tensor has variants. Ends at an error, and beyond the largest size.
  std::int64_t of(const Tensor& variants) {
    std::int64_t total = 0;
    for (const Variant& element : variants.flat<Variant>()) total = sum(total, of(element));
    return total;
  }
  const Status& status() const { return status_; }

 private:
  static std::int64_t sum(std::int64_t a, std::int64_t b) { return std::min(a + b, kMaxWrittenVariantBytes + 1); }

  std::int64_t of(const Variant& variant) {
    if (!variant.has_value() || !status_.ok()) return 0;
    const VariantObject& object = *variant.object();
    if (object.depth() > kMaxWrittenVariantDepth) {
      status_ = invalid_argument("variants that lie ", object.depth(), " deep in one another cannot be written, only ",
                                 kMaxWrittenVariantDepth);
      return 0;
    }
    if (const auto known = sizes_.find(&object); known != sizes_.end()) return known->second;
    std::int64_t total = 0;
    if (const auto* list = variant.get<TensorList>()) total = sum(total, kBytesOfAnIndex * list->size());
    const bool written = each_tensor(variant, [&](const Tensor& tensor) {
      const auto bytes = static_cast<std::int64_t>(tensor.bytes());
      total = sum(sum(total, kBytesOfATensor), std::min(bytes, kMaxWrittenVariantBytes + 1));
      if (tensor.dtype() == DType::kVariant) total = sum(total, of(tensor));
      if (tensor.dtype() != DType::kString) return;
      for (const std::string& text : tensor.flat<std::string>()) {
        total = sum(total, static_cast<std::int64_t>(text.size()));
      }
    });
    if (!written) status_.update(unimplemented("a variant of type ", object.type_name(), " has no bytes"));
    sizes_.emplace(&object, total);
    return total;
  }

  std::unordered_map<const VariantObject*, std::int64_t> sizes_;
  Status status_;
};

// --- Metadata ---

// How many items were never set, which, the type of items, how many there may be, their shape as a message.
std::string list_metadata(const TensorList& list, const std::vector<std::uint64_t>& unset) {
  std::string metadata;
  append_varint(unset.size(), &metadata);
  for (const std::uint64_t index : unset) append_varint(index, &metadata);
  append_varint(static_cast<std::uint64_t>(list.dtype()), &metadata);
  append_varint(static_cast<std::uint64_t>(list.max_items()), &metadata);
  tensorflow::TensorShapeProto shape;
  encode_shape(list.element_shape(), &shape);
  shape.AppendToString(&metadata);
  return metadata;
}

VariantData list_data(const TensorList& list) {
  VariantData data{.type_name = std::string(kListType), .metadata = {}, .tensors = list.items()};
  std::vector<std::uint64_t> unset;
  std::size_t set = 0;
  for (std::size_t i = 0; i < data.tensors.size(); ++i) {
    if (!data.tensors[i].has_value()) {
      unset.push_back(i);
    } else if (set++ != i) {
      data.tensors[set - 1] = std::move(data.tensors[i]);
    }
  }
  data.tensors.resize(set);
  data.metadata = list_metadata(list, unset);
  return data;
}

Status bad_list(std::string_view what) { return invalid_argument("a list's metadata ", what); }

// Puts items without a value among those that there are.
Result<std::vector<Tensor>> with_unset(std::vector<Tensor> set, const std::vector<std::uint64_t>& unset) {
  if (unset.empty()) return set;
  const std::size_t size = set.size() + unset.size();
  std::vector<Tensor> items;
  items.reserve(size);
  std::size_t next = 0;
  for (const std::uint64_t index : unset) {
    if (index < items.size() || index >= size || index - items.size() > set.size() - next) {
      return bad_list(str_cat("says that item ", index, " of ", size, " was never set, after item ", items.size()));
    }
    while (items.size() < index) items.push_back(std::move(set[next++]));
    items.emplace_back();
  }
  while (next < set.size()) items.push_back(std::move(set[next++]));
  return items;
}

Result<Variant> read_list(VariantData data) {
  std::string_view rest = data.metadata;
  std::uint64_t count = 0, dtype_number = 0, max_items = 0;
  // Each takes a byte at least, so that a count larger than that is none.
  if (!take_varint(rest, &count) || count > rest.size()) return bad_list("ends within the items that were never set");
  std::vector<std::uint64_t> unset(count);
  for (std::uint64_t& index : unset) {
    if (!take_varint(rest, &index)) return bad_list("ends within the items that were never set");
  }
  if (!take_varint(rest, &dtype_number) || !take_varint(rest, &max_items)) {
    return bad_list("ends before the type and number of items");
  }
  if (dtype_number > kMaxDType || !is_valid_dtype(static_cast<int>(dtype_number))) {
    return bad_list(str_cat("has the unknown type ", dtype_number));
  }
  tensorflow::TensorShapeProto shape_proto;
  if (rest.size() > INT_MAX || !shape_proto.ParseFromArray(rest.data(), static_cast<int>(rest.size()))) {
    return bad_list("ends in no shape");
  }
  TUTTI_ASSIGN_OR_RETURN(PartialShape shape, decode_shape(shape_proto));
  const auto dtype = static_cast<DType>(dtype_number);
  for (const Tensor& item : data.tensors) {
    if (item.dtype() != dtype || !shape.compatible_with(item.shape())) {
      return invalid_argument("a list of ", dtype_name(dtype), " ", shape, " has an item ", dtype_name(item.dtype()),
                              " ", item.shape());
    }
  }
  TUTTI_ASSIGN_OR_RETURN(std::vector<Tensor> items, with_unset(std::move(data.tensors), unset));
  return Variant(std::make_shared<const TensorList>(dtype, std::move(shape), std::move(items),
                                                    static_cast<std::int64_t>(max_items)));
}

Result<Variant> read_optional(VariantData data) {
  if (data.metadata.size() != 1) {
    return invalid_argument("an optional's metadata has ", data.metadata.size(), " bytes, not one");
  }
  const bool has_value = data.metadata[0] != 0;
  if (has_value == data.tensors.empty()) {
    return invalid_argument("an optional with", has_value ? "" : "out", " a value has ", data.tensors.size(),
                            " components");
  }
  return Variant(std::make_shared<const Optional>(std::move(data.tensors)));
}

Result<Variant> read_held_tensor(VariantData data) {
  if (data.tensors.size() != 1) return invalid_argument("a tensor in a variant: there are ", data.tensors.size());
  if (data.tensors[0].dtype() == DType::kVariant) return unimplemented("a tensor of variants in a variant");
  return Variant(std::make_shared<const TensorVariant>(std::move(data.tensors[0])));
}

}  // namespace

Status check_writable(const Tensor& variants) {
  WrittenSize size;
  const std::int64_t bytes = size.of(variants);
  TUTTI_RETURN_IF_ERROR(size.status());
  if (bytes <= kMaxWrittenVariantBytes) return {};
  return invalid_argument("variants ", variants.shape(), " would take more than ", kMaxWrittenVariantBytes,
                          " bytes in a message");
}

VariantData to_variant_data(const Variant& variant) {
  if (const auto* list = variant.get<TensorList>()) return list_data(*list);
  if (const auto* optional = variant.get<Optional>()) {
    return {.type_name = std::string(kOptionalType),
            .metadata = std::string(1, optional->components().empty() ? '\0' : '\1'),
            .tensors = optional->components()};
  }
  if (const auto* held = variant.get<TensorVariant>()) {
    return {.type_name = std::string(kTensorType), .metadata = {}, .tensors = {held->tensor()}};
  }
  return {};
}

Result<Variant> from_variant_data(VariantData data) {
  if (data.type_name == kListType) return read_list(std::move(data));
  if (data.type_name == kOptionalType) return read_optional(std::move(data));
  if (data.type_name == kTensorType) return read_held_tensor(std::move(data));
  if (!data.type_name.empty()) {
    return unimplemented("variants of type \"", printable(data.type_name, 100), "\" cannot be read");
  }
  if (data.metadata.empty() && data.tensors.empty()) return Variant();
  return invalid_argument("a variant of no type has ", data.metadata.size(), " bytes of metadata and ",
                          data.tensors.size(), " tensors");
}

Status VariantReading::check_depth() const {
  if (budget_.variants_around <= kMaxWrittenVariantDepth) return {};
  return invalid_argument("variants lie more than ", kMaxWrittenVariantDepth, " deep in one another");
}

Status VariantReading::count_tensor() { return budget_.take(kBytesOfATensor, "the tensors of a variant"); }

}  // namespace tutti
