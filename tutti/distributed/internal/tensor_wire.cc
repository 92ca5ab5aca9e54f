#include "tutti/distributed/internal/tensor_wire.h"

#include <algorithm>
#include <array>
#include <climits>
#include <string>

#include "proto/tensor.pb.h"
#include "tutti/core/borrowed_buffer.h"
#include "tutti/graph/variant_data.h"

namespace tutti {
namespace {

// Fields of TensorProto.
constexpr std::uint32_t kDtype = 1;
constexpr std::uint32_t kShape = 2;
constexpr std::uint32_t kContent = 4;
constexpr std::uint32_t kStringVal = 8;
constexpr std::uint32_t kHandleVal = 14;
constexpr std::uint32_t kVariantVal = 15;
// Of VariantTensorDataProto.
constexpr std::uint32_t kTypeName = 1;
constexpr std::uint32_t kMetadata = 2;
constexpr std::uint32_t kTensors = 3;
// Of TensorShapeProto and its Dim.
constexpr std::uint32_t kDim = 2;
constexpr std::uint32_t kUnknownRank = 3;
constexpr std::uint32_t kDimSize = 1;

// From here on memory is worth keeping for the next value.
constexpr std::size_t kKeptFrom = std::size_t{1} << 20;

// A tensor over a message's memory keeps the whole piece: not for a small part of a large one.
constexpr std::uint64_t kMaxPieceOverTensor = 16;

std::uint64_t tag_size(std::uint32_t field) { return varint_size(field << 3); }

std::uint64_t delimited_size(std::uint32_t field, std::uint64_t bytes) {
  return tag_size(field) + varint_size(bytes) + bytes;
}

std::uint64_t dim_wire_size(std::int64_t size) {
  return size == 0 ? 0 : tag_size(kDimSize) + varint_size(static_cast<std::uint64_t>(size));
}

std::uint64_t shape_wire_size(const Shape& shape) {
  std::uint64_t total = 0;
  for (std::int64_t size : shape.dims()) total += delimited_size(kDim, dim_wire_size(size));
  return total;
}

void write_shape(const Shape& shape, WireWriter& out) {
  for (std::int64_t size : shape.dims()) {
    out.tag(kDim, WireType::kBytes);
    out.varint(dim_wire_size(size));
    if (size == 0) continue;
    out.tag(kDimSize, WireType::kVarint);
    out.varint(static_cast<std::uint64_t>(size));
  }
}

template <typename Take>
void each_handle_part(const ResourceHandle& handle, Take take) {
  if (!handle.device().empty()) take(1, handle.device());
  if (!handle.container().empty()) take(2, handle.container());
  if (!handle.name().empty()) take(3, handle.name());
}

std::uint64_t handle_wire_size(const ResourceHandle& handle) {
  std::uint64_t total = 0;
  each_handle_part(handle,
                   [&total](int field, const std::string& text) { total += delimited_size(field, text.size()); });
  return total;
}

void write_delimited(std::uint32_t field, std::string_view bytes, const BufferPtr& owner, WireWriter& out) {
  out.tag(field, WireType::kBytes);
  out.varint(bytes.size());
  if (bytes.size() < kMinSharedBytes) {
    out.bytes(bytes);
  } else {
    out.shared(std::as_bytes(std::span(bytes)), owner);
  }
}

std::string_view content_of(const Tensor& tensor) { return {static_cast<const char*>(tensor.raw()), tensor.bytes()}; }

// Of the variants in a tensor and the tensors in those, in the order in which they are written: measuring a variant
// when it is written would measure what lies deep in others once for each of them.
class NestedSizes {
 public:
  template <typename Measure>
  std::uint64_t add(Measure measure) {
    const std::size_t place = sizes_.size();
    sizes_.push_back(0);
    const std::uint64_t size = measure();
    return sizes_[place] = size;
  }
  std::uint64_t next() { return sizes_[next_++]; }

 private:
  std::vector<std::uint64_t> sizes_;
  std::size_t next_ = 0;
};

// REQUIRES, as all that write: check_writable() of the tensor, or of the one around it, when there are variants.
std::uint64_t checked_wire_size(const Tensor& tensor, NestedSizes& nested);

std::uint64_t variant_wire_size(const VariantData& data, NestedSizes& nested) {
  std::uint64_t total = 0;
  if (!data.type_name.empty()) total += delimited_size(kTypeName, data.type_name.size());
  if (!data.metadata.empty()) total += delimited_size(kMetadata, data.metadata.size());
  for (const Tensor& tensor : data.tensors) {
    total += delimited_size(kTensors, nested.add([&] { return checked_wire_size(tensor, nested); }));
  }
  return total;
}

std::uint64_t elements_wire_size(const Tensor& tensor, NestedSizes& nested) {
  if (tensor.num_elements() == 0) return 0;
  std::uint64_t total = 0;
  if (tensor.dtype() == DType::kVariant) {
    for (const Variant& value : tensor.flat<Variant>()) {
      total +=
          delimited_size(kVariantVal, nested.add([&] { return variant_wire_size(to_variant_data(value), nested); }));
    }
    return total;
  }
  if (tensor.dtype() == DType::kString) {
    for (const std::string& value : tensor.flat<std::string>()) total += delimited_size(kStringVal, value.size());
    return total;
  }
  if (tensor.dtype() == DType::kResource) {
    for (const ResourceHandle& value : tensor.flat<ResourceHandle>()) {
      total += delimited_size(kHandleVal, handle_wire_size(value));
    }
    return total;
  }
  return delimited_size(kContent, tensor.bytes());
}

std::uint64_t header_wire_size(const Tensor& tensor) {
  return tag_size(kDtype) + varint_size(static_cast<std::uint64_t>(tensor.dtype())) +
         delimited_size(kShape, shape_wire_size(tensor.shape()));
}

std::uint64_t checked_wire_size(const Tensor& tensor, NestedSizes& nested) {
  return header_wire_size(tensor) + elements_wire_size(tensor, nested);
}

// REQUIRES, as below: checked_wire_size() has added what is next.
void write_checked(const Tensor& tensor, NestedSizes& nested, WireWriter& out);

void write_text(std::uint32_t field, std::string_view text, WireWriter& out) {
  if (text.empty()) return;
  out.tag(field, WireType::kBytes);
  out.varint(text.size());
  out.bytes(text);
}

void write_variant(const VariantData& data, NestedSizes& nested, WireWriter& out) {
  out.tag(kVariantVal, WireType::kBytes);
  out.varint(nested.next());
  write_text(kTypeName, data.type_name, out);
  write_text(kMetadata, data.metadata, out);
  for (const Tensor& tensor : data.tensors) {
    out.tag(kTensors, WireType::kBytes);
    out.varint(nested.next());
    write_checked(tensor, nested, out);
  }
}

void write_elements(const Tensor& tensor, NestedSizes& nested, WireWriter& out) {
  if (tensor.num_elements() == 0) return;
  switch (tensor.dtype()) {
    case DType::kString:
      for (const std::string& value : tensor.flat<std::string>()) {
        write_delimited(kStringVal, value, tensor.buffer(), out);
      }
      return;
    case DType::kResource:
      for (const ResourceHandle& value : tensor.flat<ResourceHandle>()) {
        out.tag(kHandleVal, WireType::kBytes);
        out.varint(handle_wire_size(value));
        each_handle_part(value, [&](int field, const std::string& text) {
          write_delimited(static_cast<std::uint32_t>(field), text, tensor.buffer(), out);
        });
      }
      return;
    case DType::kVariant:
      for (const Variant& value : tensor.flat<Variant>()) write_variant(to_variant_data(value), nested, out);
      return;
    default:
      write_delimited(kContent, content_of(tensor), tensor.buffer(), out);
  }
}

void write_header(const Tensor& tensor, WireWriter& out) {
  out.tag(kDtype, WireType::kVarint);
  out.varint(static_cast<std::uint64_t>(tensor.dtype()));
  out.tag(kShape, WireType::kBytes);
  out.varint(shape_wire_size(tensor.shape()));
  write_shape(tensor.shape(), out);
}

void write_checked(const Tensor& tensor, NestedSizes& nested, WireWriter& out) {
  write_header(tensor, out);
  write_elements(tensor, nested, out);
}

Status check_before_writing(const Tensor& tensor) {
  return tensor.dtype() == DType::kVariant ? check_writable(tensor) : Status();
}

// What a TensorProto says before anything is made of it.
struct TensorHeader {
  std::uint64_t dtype = 0;
  std::array<std::int64_t, kMaxRank> dims;
  int rank = 0;
  WireReader content;
  bool typed_values = false;  // or anything else that is left to the general decoder
};

Status malformed(std::string_view field) {
  return invalid_argument("TensorProto.", field, " is cut short or of the wrong wire type");
}

// One field: its number, and its value as a number or as bytes.
struct WireField {
  std::uint32_t number = 0;
  WireType type = WireType::kVarint;
  std::uint64_t value = 0;
  WireReader bytes;
};

// False when malformed. REQUIRES: in.left() > 0.
bool next_field(WireReader& in, WireField& field) {
  std::uint64_t tag = 0;
  if (!in.varint(&tag) || tag > UINT32_MAX || tag >> 3 == 0) return false;
  field.number = static_cast<std::uint32_t>(tag >> 3);
  field.type = static_cast<WireType>(tag & 7);
  switch (field.type) {
    case WireType::kVarint:
      return in.varint(&field.value);
    case WireType::kFixed64:
      return in.skip(8);
    case WireType::kFixed32:
      return in.skip(4);
    case WireType::kBytes:
      return in.delimited(&field.bytes);
  }
  return false;
}

Status read_dim(WireReader in, TensorHeader& header) {
  if (header.rank == kMaxRank) return invalid_argument("TensorProto.tensor_shape has over ", kMaxRank, " dimensions");
  std::int64_t& size = header.dims[static_cast<std::size_t>(header.rank++)];
  size = 0;
  WireField field;
  while (in.left() > 0) {
    if (!next_field(in, field)) return malformed("tensor_shape");
    if (field.number != kDimSize) continue;
    if (field.type != WireType::kVarint) return malformed("tensor_shape");
    size = static_cast<std::int64_t>(field.value);
  }
  return {};
}

Status read_shape(WireReader in, TensorHeader& header) {
  WireField field;
  while (in.left() > 0) {
    if (!next_field(in, field)) return malformed("tensor_shape");
    if (field.number == kDim) {
      if (field.type != WireType::kBytes) return malformed("tensor_shape");
      TUTTI_RETURN_IF_ERROR(read_dim(field.bytes, header));
    } else if (field.number == kUnknownRank && (field.type != WireType::kVarint || field.value != 0)) {
      return invalid_argument("TensorProto.tensor_shape has no rank");
    }
  }
  return {};
}

Status read_header(WireReader in, TensorHeader& header) {
  WireField field;
  while (in.left() > 0) {
    if (!next_field(in, field)) return malformed(str_cat("field ", field.number));
    switch (field.number) {
      case kDtype:
        if (field.type != WireType::kVarint) return malformed("dtype");
        header.dtype = field.value;
        break;
      case kShape:
        if (field.type != WireType::kBytes) return malformed("tensor_shape");
        TUTTI_RETURN_IF_ERROR(read_shape(field.bytes, header));
        break;
      case kContent:
        if (field.type != WireType::kBytes) return malformed("tensor_content");
        header.content = field.bytes;
        break;
      default:
        header.typed_values = true;
    }
  }
  return {};
}

bool all_zero_or_one(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char byte) { return static_cast<unsigned char>(byte) <= 1; });
}

// The memory of a small tensor beside its count: one plain allocation, where an aligned one costs several times that.
template <std::size_t kBytes>
class InlineBuffer : public Buffer {
 public:
  explicit InlineBuffer(std::size_t bytes) : Buffer(storage_, bytes) {}

 private:
  alignas(std::max_align_t) std::byte storage_[kBytes];
};

Result<Tensor> make_tensor(DType dtype, const Shape& shape) {
  const std::size_t bytes = static_cast<std::size_t>(shape.num_elements()) * dtype_size(dtype);
  if (bytes <= 32) return Tensor(dtype, shape, std::make_shared<InlineBuffer<32>>(bytes));
  if (bytes < kMinSharedBytes) return Tensor(dtype, shape, std::make_shared<InlineBuffer<kMinSharedBytes>>(bytes));
  return Tensor::create(dtype, shape, bytes < kKeptFrom ? heap_allocator() : message_allocator());
}

// Whether a tensor may lie over the message's memory.
bool may_borrow(const WireReader& content, DType dtype) {
  if (content.left() < kMinSharedBytes || !content.contiguous()) return false;
  const Payload::Piece& piece = content.piece();
  if (piece.bytes.size() / kMaxPieceOverTensor > content.left()) return false;
  if (piece.lent && (content.left() < kMinLentTensorBytes || !is_differentiable(dtype))) return false;
  const std::string_view bytes = content.view();
  // Kernels assume no more than an element's alignment: a slice of a tensor has no better one.
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % dtype_size(dtype) != 0) return false;
  // A byte other than 0 and 1 is not a valid bool of C++.
  return dtype != DType::kBool || all_zero_or_one(bytes);
}

Result<Tensor> tensor_of_content(const WireReader& content, DType dtype, Shape shape) {
  const std::uint64_t size = dtype_size(dtype);
  const auto count = static_cast<std::uint64_t>(shape.num_elements());
  if (content.left() / size != count || content.left() % size != 0) {
    return invalid_argument("TensorProto.tensor_content has ", content.left(), " bytes, ", dtype_name(dtype), " ",
                            shape, " needs ", count, " times ", size);
  }
  if (may_borrow(content, dtype)) {
    const std::span<const std::byte> bytes = std::as_bytes(std::span(content.view()));
    return Tensor(dtype, std::move(shape), std::make_shared<BorrowedBuffer>(bytes, content.piece().owner));
  }
  TUTTI_ASSIGN_OR_RETURN(Tensor tensor, make_tensor(dtype, shape));
  content.copy_to(tensor.raw());
  if (dtype == DType::kBool) {
    auto* values = static_cast<std::uint8_t*>(tensor.raw());
    std::transform(values, values + count, values, [](std::uint8_t byte) { return byte != 0 ? 1 : 0; });
  }
  return tensor;
}

// Lists of typed values, the last of which repeats; strings and handles.
Result<Tensor> read_typed(const WireReader& in, ExpansionBudget& budget) {
  if (in.left() > INT_MAX) {
    return invalid_argument("TensorProto of ", in.left(),
                            " bytes without packed numbers: protobuf, which reads those, ", "ends at ", INT_MAX);
  }
  // protobuf may read a byte twice, which must be the same one.
  const bool in_place = in.contiguous() && (in.left() == 0 || !in.piece().lent);
  std::string copy;
  if (!in_place) in.append_to(&copy);
  const std::string_view bytes = in_place ? in.view() : std::string_view(copy);
  tensorflow::TensorProto proto;
  if (!proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return invalid_argument("TensorProto of ", bytes.size(), " bytes is malformed");
  }
  return decode_tensor(proto, budget);
}

Result<Variant> read_variant(WireReader in, ExpansionBudget& budget) {
  VariantReading reading(budget);
  TUTTI_RETURN_IF_ERROR(reading.check_depth());
  VariantData data;
  WireField field;
  while (in.left() > 0) {
    if (!next_field(in, field)) return malformed("variant_val");
    if (field.number != kTypeName && field.number != kMetadata && field.number != kTensors) continue;
    if (field.type != WireType::kBytes) return malformed("variant_val");
    if (field.number == kTensors) {
      TUTTI_RETURN_IF_ERROR(reading.count_tensor());
      TUTTI_ASSIGN_OR_RETURN(Tensor tensor, read_tensor(field.bytes, budget));
      data.tensors.push_back(std::move(tensor));
    } else {
      std::string& text = field.number == kTypeName ? data.type_name : data.metadata;
      text.clear();
      field.bytes.append_to(&text);
    }
  }
  return from_variant_data(std::move(data), budget);
}

// Their lengths, then all of them.
Status read_packed_variants(WireReader content, ExpansionBudget& budget, std::span<Variant> out) {
  if (out.size() > content.left()) return malformed("tensor_content");
  std::vector<std::uint64_t> lengths(out.size());
  for (std::uint64_t& length : lengths) {
    if (!content.varint(&length)) return malformed("tensor_content");
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    WireReader element;
    if (!content.take(lengths[i], &element)) return malformed("tensor_content");
    TUTTI_ASSIGN_OR_RETURN(out[i], read_variant(element, budget));
  }
  return content.left() == 0 ? Status() : malformed("tensor_content");
}

// As they lie between the other fields of the message; the last one repeats.
Status read_listed_variants(WireReader in, ExpansionBudget& budget, std::span<Variant> out) {
  WireField field;
  std::size_t given = 0;
  while (in.left() > 0 && given < out.size()) {
    if (!next_field(in, field)) return malformed("variant_val");
    if (field.number != kVariantVal) continue;
    if (field.type != WireType::kBytes) return malformed("variant_val");
    TUTTI_ASSIGN_OR_RETURN(out[given++], read_variant(field.bytes, budget));
  }
  for (std::size_t i = std::max<std::size_t>(given, 1); i < out.size(); ++i) out[i] = out[i - 1];
  return {};
}

// Not by protobuf, which would copy all tensors in them, and take much memory for messages of many small ones.
Result<Tensor> read_variants(const WireReader& in, const TensorHeader& header, const Shape& shape,
                             ExpansionBudget& budget) {
  TUTTI_RETURN_IF_ERROR(take_objects(DType::kVariant, shape, budget));
  TUTTI_ASSIGN_OR_RETURN(Tensor tensor, Tensor::create(DType::kVariant, shape, heap_allocator()));
  const std::span<Variant> out = tensor.flat<Variant>();
  TUTTI_RETURN_IF_ERROR(header.content.left() > 0 ? read_packed_variants(header.content, budget, out)
                                                  : read_listed_variants(in, budget, out));
  return tensor;
}

}  // namespace

std::uint64_t tensor_wire_size(const Tensor& tensor) {
  NestedSizes nested;
  return check_before_writing(tensor).ok() ? checked_wire_size(tensor, nested) : header_wire_size(tensor);
}

Status write_tensor(const Tensor& tensor, WireWriter& out) {
  TUTTI_RETURN_IF_ERROR(check_before_writing(tensor));
  NestedSizes nested;
  if (tensor.dtype() == DType::kVariant) (void)checked_wire_size(tensor, nested);
  write_checked(tensor, nested, out);
  return {};
}

Result<Tensor> read_tensor(WireReader bytes, ExpansionBudget& budget) {
  TensorHeader header;
  TUTTI_RETURN_IF_ERROR(read_header(bytes, header));
  if (header.dtype > kMaxDType || !is_valid_dtype(static_cast<int>(header.dtype))) {
    return invalid_argument("TensorProto.dtype: unknown type ", header.dtype);
  }
  const auto dtype = static_cast<DType>(header.dtype);
  if (dtype != DType::kVariant && (header.content.left() == 0 || is_object(dtype))) {
    Result<Tensor> tensor = read_typed(bytes, budget);
    return tensor.ok() ? std::move(tensor) : tensor.status().with_context("TensorProto");
  }
  Result<Shape> shape = Shape::create({header.dims.data(), static_cast<std::size_t>(header.rank)});
  if (!shape.ok()) return shape.status().with_context("TensorProto.tensor_shape");
  if (shape->num_elements() == 0) return Tensor::create(dtype, *shape, heap_allocator());
  if (dtype == DType::kVariant) return read_variants(bytes, header, *shape, budget);
  return tensor_of_content(header.content, dtype, *std::move(shape));
}

}  // namespace tutti
