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
#include "tutti/core/varints.h"

namespace tutti {
namespace {

constexpr std::string_view kListType = "tensorflow::TensorList";
constexpr std::string_view kOptionalType = "tensorflow::data::Optional";
constexpr std::string_view kTensorType = "tensorflow::Tensor";

// About what a tensor takes beside its elements: in memory, and more than that in a message.
constexpr std::int64_t kBytesOfATensor = 256;
// What an item that was never set takes: at most in a message, and in memory with its index, while that is read.
constexpr std::int64_t kWrittenUnsetItem = 10;
constexpr std::int64_t kBytesOfUnsetItem = sizeof(Tensor) + sizeof(std::uint64_t);
// The part of a reader's budget that is left to what else there is in the message.
constexpr std::int64_t kPartForOthers = 16;

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

// What variants take: at most in a message, and of the budget of who reads it.
struct Cost {
  std::int64_t written = 0;
  std::int64_t taken = 0;

  // Both stay where sums cannot overflow, far beyond every limit.
  void add(std::int64_t more_written, std::int64_t more_taken) {
    constexpr std::int64_t kMost = std::int64_t{1} << 60;
    written = std::min(written + std::min(more_written, kMost), kMost);
    taken = std::min(taken + std::min(more_taken, kMost), kMost);
  }
};

// Adds up what variants take, each object once.
class WrittenSize {
 public:
  // REQUIRES: the tensor has variants. Ends at an error.
  Cost of(const Tensor& variants) {
    Cost total = places_of(variants);
    for (const Variant& element : variants.flat<Variant>()) {
      const Cost cost = of(element);
      total.add(cost.written, cost.taken);
    }
    return total;
  }
  const Status& status() const { return status_; }

 private:
  static Cost places_of(const Tensor& tensor) {
    const auto bytes = static_cast<std::int64_t>(tensor.bytes());
    return {.written = bytes, .taken = is_object(tensor.dtype()) ? bytes : 0};
  }

  Cost of(const Variant& variant) {
    if (!variant.has_value() || !status_.ok()) return {};
    const VariantObject& object = *variant.object();
    if (object.depth() > kMaxWrittenVariantDepth) {
      status_ = invalid_argument("variants that lie ", object.depth(), " deep in one another cannot be written, only ",
                                 kMaxWrittenVariantDepth);
      return {};
    }
    if (const auto known = costs_.find(&object); known != costs_.end()) return known->second;
    Cost total;
    std::int64_t tensors = 0;
    const bool known_type = each_tensor(variant, [&](const Tensor& tensor) {
      ++tensors;
      const Cost cost = tensor.dtype() == DType::kVariant ? of(tensor) : places_of(tensor);
      total.add(cost.written, cost.taken);
      if (tensor.dtype() != DType::kString) return;
      for (const std::string& text : tensor.flat<std::string>()) total.add(static_cast<std::int64_t>(text.size()), 0);
    });
    if (!known_type) status_.update(unimplemented("a variant of type ", object.type_name(), " has no bytes"));
    // The names and metadata of variants take about what a tensor does.
    total.add(kBytesOfATensor * (tensors + 1), kBytesOfATensor * tensors);
    if (const auto* list = variant.get<TensorList>()) {
      const std::int64_t unset = list->size() - tensors;
      total.add(kWrittenUnsetItem * unset, kBytesOfUnsetItem * unset);
    }
    costs_.emplace(&object, total);
    return total;
  }

  std::unordered_map<const VariantObject*, Cost> costs_;
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

Result<Variant> read_list(VariantData data, ExpansionBudget& budget) {
  std::string_view rest = data.metadata;
  std::uint64_t count = 0, dtype_number = 0, max_items = 0;
  // Each takes a byte at least, so that a count larger than that is none.
  if (!take_varint(rest, &count) || count > rest.size()) return bad_list("ends within the items that were never set");
  TUTTI_RETURN_IF_ERROR(
      budget.take(static_cast<std::int64_t>(count) * kBytesOfUnsetItem, "a list's items that were never set"));
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

Status check_writable(const Tensor& variants, const ExpansionBudget& readers) {
  WrittenSize size;
  const Cost cost = size.of(variants);
  TUTTI_RETURN_IF_ERROR(size.status());
  if (cost.written > kMaxWrittenVariantBytes) {
    return invalid_argument("variants ", variants.shape(), " would take more than ", kMaxWrittenVariantBytes,
                            " bytes in a message");
  }
  const std::int64_t most = readers.bytes_left - readers.bytes_left / kPartForOthers;
  if (cost.taken <= most) return {};
  return invalid_argument("variants ", variants.shape(),
                          " hold too many tensors, strings or unset items to be read: ", cost.taken,
                          " bytes of memory beside their elements, at most ", most);
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

Result<Variant> from_variant_data(VariantData data, ExpansionBudget& budget) {
  if (data.type_name == kListType) return read_list(std::move(data), budget);
  if (data.type_name == kOptionalType) return read_optional(std::move(data));
  if (data.type_name == kTensorType) return read_held_tensor(std::move(data));
  if (!data.type_name.empty()) {
    return unimplemented("variants of type \"", printable(data.type_name, 100), "\" cannot be read");
  }
  if (data.metadata.empty() && data.tensors.empty()) return Variant();
  return invalid_argument("a variant of no type has ", data.metadata.size(), " bytes of metadata and ",
                          data.tensors.size(), " tensors");
}

Status take_objects(DType dtype, const Shape& shape, ExpansionBudget& budget) {
  const auto each = static_cast<std::int64_t>(element_stride(dtype));
  if (shape.num_elements() > budget.bytes_left / each) {
    return resource_exhausted("a tensor ", dtype_name(dtype), " ", shape, " has too many elements: ", budget.bytes_left,
                              " of the bytes for one message are left");
  }
  budget.bytes_left -= shape.num_elements() * each;
  return {};
}

Status VariantReading::check_depth() const {
  if (budget_.variants_around <= kMaxWrittenVariantDepth) return {};
  return invalid_argument("variants lie more than ", kMaxWrittenVariantDepth, " deep in one another");
}

Status VariantReading::count_tensor() { return budget_.take(kBytesOfATensor, "the tensors of a variant"); }

}  // namespace tutti
