#include "tutti/distributed/internal/tensor_wire.h"

#include <algorithm>
#include <array>
#include <climits>
#include <string>

#include "proto/tensor.pb.h"
#include "tutti/core/borrowed_buffer.h"

namespace tutti {
namespace {

// Fields of TensorProto.
constexpr std::uint32_t kDtype = 1;
constexpr std::uint32_t kShape = 2;
constexpr std::uint32_t kContent = 4;
constexpr std::uint32_t kStringVal = 8;
constexpr std::uint32_t kHandleVal = 14;
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

std::uint64_t elements_wire_size(const Tensor& tensor) {
  if (tensor.num_elements() == 0 || tensor.dtype() == DType::kVariant) return 0;
  std::uint64_t total = 0;
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

Status write_elements(const Tensor& tensor, WireWriter& out) {
  if (tensor.num_elements() == 0) return {};
  switch (tensor.dtype()) {
    case DType::kString:
      for (const std::string& value : tensor.flat<std::string>()) {
        write_delimited(kStringVal, value, tensor.buffer(), out);
      }
      return {};
    case DType::kResource:
      for (const ResourceHandle& value : tensor.flat<ResourceHandle>()) {
        out.tag(kHandleVal, WireType::kBytes);
        out.varint(handle_wire_size(value));
        each_handle_part(value, [&](int field, const std::string& text) {
          write_delimited(static_cast<std::uint32_t>(field), text, tensor.buffer(), out);
        });
      }
      return {};
    case DType::kVariant:
      for (const Variant& value : tensor.flat<Variant>()) {
        if (value.has_value()) return unimplemented("a variant tensor cannot be sent");
      }
      return {};
    default:
      write_delimited(kContent, content_of(tensor), tensor.buffer(), out);
      return {};
  }
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

}  // namespace

std::uint64_t tensor_wire_size(const Tensor& tensor) {
  return tag_size(kDtype) + varint_size(static_cast<std::uint64_t>(tensor.dtype())) +
         delimited_size(kShape, shape_wire_size(tensor.shape())) + elements_wire_size(tensor);
}

Status write_tensor(const Tensor& tensor, WireWriter& out) {
  out.tag(kDtype, WireType::kVarint);
  out.varint(static_cast<std::uint64_t>(tensor.dtype()));
  out.tag(kShape, WireType::kBytes);
  out.varint(shape_wire_size(tensor.shape()));
  write_shape(tensor.shape(), out);
  return write_elements(tensor, out);
}

Result<Tensor> read_tensor(WireReader bytes, ExpansionBudget& budget) {
  TensorHeader header;
  TUTTI_RETURN_IF_ERROR(read_header(bytes, header));
  if (header.dtype > kMaxDType || !is_valid_dtype(static_cast<int>(header.dtype))) {
    return invalid_argument("TensorProto.dtype: unknown type ", header.dtype);
  }
  const auto dtype = static_cast<DType>(header.dtype);
  if (header.content.left() == 0 || is_object(dtype)) {
    Result<Tensor> tensor = read_typed(bytes, budget);
    return tensor.ok() ? std::move(tensor) : tensor.status().with_context("TensorProto");
  }
  Result<Shape> shape = Shape::create({header.dims.data(), static_cast<std::size_t>(header.rank)});
  if (!shape.ok()) return shape.status().with_context("TensorProto.tensor_shape");
  if (shape->num_elements() == 0) return Tensor::create(dtype, *shape, heap_allocator());
  return tensor_of_content(header.content, dtype, *std::move(shape));
}

}  // namespace tutti
