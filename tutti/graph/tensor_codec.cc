#include "tutti/graph/tensor_codec.h"

#include <algorithm>
#include <complex>
#include <cstring>

#include "proto/tensor.pb.h"
#include "tutti/core/varints.h"
#include "tutti/graph/internal/typed_elements.h"
#include "tutti/graph/variant_data.h"

namespace tutti {
namespace {

using tensorflow::ResourceHandleProto;
using tensorflow::TensorProto;
using tensorflow::VariantTensorDataProto;

// The first `count` elements from a list of typed values: `get(i)` of `given` ones, the last one repeated.
template <typename T, typename Get>
void fill(Tensor& tensor, std::int64_t given, Get get) {
  T* out = static_cast<T*>(tensor.raw());
  const std::int64_t count = tensor.num_elements();
  const std::int64_t read = std::min(given, count);
  for (std::int64_t i = 0; i < read; ++i) out[i] = get(static_cast<int>(i));
  std::fill(out + read, out + count, read > 0 ? out[read - 1] : T());
}

template <typename T, typename List>
void fill_from(Tensor& tensor, const List& list) {
  fill<T>(tensor, list.size(), [&list](int i) { return static_cast<T>(list[i]); });
}

template <typename T, typename List>
void fill_complex(Tensor& tensor, const List& list) {
  fill<std::complex<T>>(tensor, list.size() / 2,
                        [&list](int i) { return std::complex<T>(list[2 * i], list[2 * i + 1]); });
}

ResourceHandle to_handle(const ResourceHandleProto& proto) {
  return ResourceHandle(proto.device(), proto.container(), proto.name());
}

// The last of those given repeats.
Status fill_variants(const TensorProto& proto, Tensor& tensor, ExpansionBudget& budget) {
  const std::span<Variant> out = tensor.flat<Variant>();
  const std::size_t given = std::min(static_cast<std::size_t>(proto.variant_val_size()), out.size());
  for (std::size_t i = 0; i < given; ++i) {
    TUTTI_ASSIGN_OR_RETURN(out[i], decode_variant(proto.variant_val(static_cast<int>(i)), budget));
  }
  for (std::size_t i = std::max<std::size_t>(given, 1); i < out.size(); ++i) out[i] = out[i - 1];
  return {};
}

Status fill_typed(const TensorProto& proto, Tensor& tensor, ExpansionBudget& budget) {
  switch (tensor.dtype()) {
    case DType::kFloat:
      fill_from<float>(tensor, proto.float_val());
      break;
    case DType::kDouble:
      fill_from<double>(tensor, proto.double_val());
      break;
    case DType::kInt32:
    case DType::kQint32:
      fill_from<std::int32_t>(tensor, proto.int_val());
      break;
    case DType::kUint8:
    case DType::kQuint8:
    case DType::kUint4:
      fill_from<std::uint8_t>(tensor, proto.int_val());
      break;
    case DType::kInt8:
    case DType::kQint8:
    case DType::kInt4:
      fill_from<std::int8_t>(tensor, proto.int_val());
      break;
    case DType::kInt16:
    case DType::kQint16:
      fill_from<std::int16_t>(tensor, proto.int_val());
      break;
    case DType::kUint16:
    case DType::kQuint16:
      fill_from<std::uint16_t>(tensor, proto.int_val());
      break;
    case DType::kHalf:
    case DType::kBfloat16:
      fill_from<std::uint16_t>(tensor, proto.half_val());
      break;
    case DType::kString:
      fill_from<std::string>(tensor, proto.string_val());
      break;
    case DType::kComplex64:
      fill_complex<float>(tensor, proto.scomplex_val());
      break;
    case DType::kComplex128:
      fill_complex<double>(tensor, proto.dcomplex_val());
      break;
    case DType::kInt64:
      fill_from<std::int64_t>(tensor, proto.int64_val());
      break;
    case DType::kBool:
      fill_from<bool>(tensor, proto.bool_val());
      break;
    case DType::kUint32:
      fill_from<std::uint32_t>(tensor, proto.uint32_val());
      break;
    case DType::kUint64:
      fill_from<std::uint64_t>(tensor, proto.uint64_val());
      break;
    case DType::kFloat8E5m2:
    case DType::kFloat8E4m3fn:
    case DType::kFloat8E4m3fnuz:
    case DType::kFloat8E4m3b11fnuz:
    case DType::kFloat8E5m2fnuz: {
      const std::string& bytes = proto.float8_val();
      fill<std::uint8_t>(tensor, static_cast<std::int64_t>(bytes.size()),
                         [&bytes](int i) { return static_cast<std::uint8_t>(bytes[i]); });
      break;
    }
    case DType::kResource: {
      const auto& handles = proto.resource_handle_val();
      fill<ResourceHandle>(tensor, handles.size(), [&handles](int i) { return to_handle(handles[i]); });
      break;
    }
    case DType::kVariant:
      return fill_variants(proto, tensor, budget);
    case DType::kInvalid:
      return invalid_argument("a tensor without a type");
  }
  return {};
}

// N varint lengths, then the N strings end to end. REQUIRES: as many bytes as elements, at least.
Result<std::vector<std::string_view>> split_content(std::string_view content, std::int64_t count) {
  std::string_view rest = content;
  std::vector<std::uint32_t> lengths(count);
  std::uint64_t total = 0;
  for (std::uint32_t& length : lengths) {
    std::uint64_t value = 0;
    if (!take_varint(rest, &value) || value > UINT32_MAX) {
      return invalid_argument("tensor_content ends within the lengths of strings");
    }
    length = static_cast<std::uint32_t>(value);
    total += value;
  }
  if (total != rest.size()) {
    return invalid_argument("tensor_content has ", rest.size(), " bytes of strings, their lengths add up to ", total);
  }
  std::vector<std::string_view> pieces;
  pieces.reserve(count);
  for (std::uint32_t length : lengths) {
    pieces.push_back(rest.substr(0, length));
    rest.remove_prefix(length);
  }
  return pieces;
}

// A message that an element of tensor_content is.
template <typename Message>
Status parse_element(std::string_view bytes, std::string_view what, Message* message) {
  if (message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return {};
  return invalid_argument("an element of tensor_content is no ", what);
}

Result<Variant> packed_variant(std::string_view bytes, ExpansionBudget& budget) {
  // Messages in the bytes of messages would hold what is innermost once for each around it.
  if (budget.variants_around > 0) {
    TUTTI_RETURN_IF_ERROR(budget.take(static_cast<std::int64_t>(bytes.size()), "packed variants within variants"));
  }
  VariantTensorDataProto variant;
  TUTTI_RETURN_IF_ERROR(parse_element(bytes, "variant", &variant));
  return decode_variant(variant, budget);
}

Status fill_objects(std::string_view content, Tensor& tensor, ExpansionBudget& budget) {
  TUTTI_ASSIGN_OR_RETURN(std::vector<std::string_view> pieces, split_content(content, tensor.num_elements()));
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (tensor.dtype() == DType::kString) {
      tensor.data<std::string>()[i] = pieces[i];
    } else if (tensor.dtype() == DType::kVariant) {
      TUTTI_ASSIGN_OR_RETURN(tensor.data<Variant>()[i], packed_variant(pieces[i], budget));
    } else {
      ResourceHandleProto handle;
      TUTTI_RETURN_IF_ERROR(parse_element(pieces[i], "resource handle", &handle));
      tensor.data<ResourceHandle>()[i] = to_handle(handle);
    }
  }
  return {};
}

Status fill_content(std::string_view content, Tensor& tensor, ExpansionBudget& budget) {
  if (is_object(tensor.dtype())) return fill_objects(content, tensor, budget);
  std::memcpy(tensor.raw(), content.data(), content.size());
  if (tensor.dtype() == DType::kBool) {
    // A byte other than 0 and 1 is not a valid bool of C++.
    auto* bytes = static_cast<std::uint8_t*>(tensor.raw());
    std::transform(bytes, bytes + content.size(), bytes, [](std::uint8_t byte) { return byte != 0 ? 1 : 0; });
  }
  return {};
}

// What an element that repeats the last given one holds besides its own place.
std::int64_t repeated_bytes(const TensorProto& proto, DType dtype) {
  if (dtype == DType::kString && !proto.string_val().empty()) {
    return static_cast<std::int64_t>(proto.string_val().rbegin()->size());
  }
  if (dtype == DType::kResource && !proto.resource_handle_val().empty()) {
    return static_cast<std::int64_t>(proto.resource_handle_val().rbegin()->ByteSizeLong());
  }
  return 0;
}

// Before memory is asked for: the message must hold what it declares, or stay within the budget.
Status check_size(const TensorProto& proto, DType dtype, const Shape& shape, ExpansionBudget& budget) {
  const std::int64_t count = shape.num_elements();
  const auto stride = static_cast<std::int64_t>(element_stride(dtype));
  const auto content = static_cast<std::int64_t>(proto.tensor_content().size());
  if (content > 0 && !is_object(dtype)) {
    if (content / stride == count && content % stride == 0) return {};
    return invalid_argument("tensor_content has ", content, " bytes, ", dtype_name(dtype), " ", shape, " needs ", count,
                            " times ", stride);
  }
  if (content > 0) {
    if (count > content) {
      return invalid_argument("tensor_content has ", content, " bytes, too few for ", count, " ", dtype_name(dtype));
    }
    const bool counts = dtype == DType::kVariant || budget.variants_around > 0;
    return counts ? take_objects(dtype, shape, budget) : Status();
  }
  const std::int64_t missing = count - std::min(count, count_typed_elements(proto, dtype));
  // Objects take more than the message has for them, so that those which it carries count too.
  const std::int64_t made = is_object(dtype) ? count : missing;
  const std::int64_t repeated = repeated_bytes(proto, dtype);
  if (made > budget.bytes_left / stride || (repeated > 0 && missing > (budget.bytes_left - made * stride) / repeated)) {
    return resource_exhausted("a tensor ", dtype_name(dtype), " ", shape, " of which the message has ", count - missing,
                              " elements is too large: ", budget.bytes_left, " bytes are left");
  }
  // Small ones are no danger: each costs the message more bytes than a tensor's worth of bookkeeping. Those in a
  // variant, where a few bytes are a tensor, all count.
  constexpr std::int64_t kFree = 1024;
  const std::int64_t bytes = made * stride + missing * repeated;
  if (bytes > kFree || budget.variants_around > 0) budget.bytes_left -= bytes;
  return {};
}

}  // namespace

Result<PartialShape> decode_shape(const tensorflow::TensorShapeProto& proto) {
  if (proto.unknown_rank()) {
    if (proto.dim_size() > 0) {
      return invalid_argument("a shape of unknown rank has ", proto.dim_size(), " dimensions");
    }
    return PartialShape::unknown();
  }
  std::vector<std::int64_t> dims;
  dims.reserve(proto.dim_size());
  for (const auto& dim : proto.dim()) dims.push_back(dim.size());
  return PartialShape::create(std::move(dims));
}

void encode_shape(const PartialShape& shape, tensorflow::TensorShapeProto* proto) {
  proto->set_unknown_rank(!shape.has_rank());
  if (!shape.has_rank()) {
    proto->clear_dim();
    return;
  }
  while (proto->dim_size() > shape.rank()) proto->mutable_dim()->RemoveLast();
  for (int i = 0; i < shape.rank(); ++i) {
    auto* dim = i < proto->dim_size() ? proto->mutable_dim(i) : proto->add_dim();
    if (dim->size() != shape.dim(i)) dim->clear_name();
    dim->set_size(shape.dim(i));
  }
}

Result<Tensor> decode_tensor(const TensorProto& proto) {
  ExpansionBudget budget;
  return decode_tensor(proto, budget);
}

Result<Tensor> decode_tensor(const TensorProto& proto, ExpansionBudget& budget) {
  if (!is_valid_dtype(proto.dtype())) {
    return invalid_argument("tensor of unknown type ", static_cast<int>(proto.dtype()));
  }
  const auto dtype = static_cast<DType>(proto.dtype());
  TUTTI_ASSIGN_OR_RETURN(PartialShape partial, decode_shape(proto.tensor_shape()));
  if (!partial.fully_known()) return invalid_argument("tensor of shape ", partial, " is not fully known");
  TUTTI_ASSIGN_OR_RETURN(Shape shape, Shape::create(partial.dims()));
  if (shape.num_elements() == 0) return Tensor::create(dtype, shape, heap_allocator());
  TUTTI_RETURN_IF_ERROR(check_size(proto, dtype, shape, budget));
  TUTTI_ASSIGN_OR_RETURN(Tensor tensor, Tensor::create(dtype, shape, heap_allocator()));
  TUTTI_RETURN_IF_ERROR(proto.tensor_content().empty() ? fill_typed(proto, tensor, budget)
                                                       : fill_content(proto.tensor_content(), tensor, budget));
  return tensor;
}

void clear_elements(TensorProto* proto) {
  proto->clear_tensor_content();
  proto->clear_float_val();
  proto->clear_double_val();
  proto->clear_int_val();
  proto->clear_string_val();
  proto->clear_scomplex_val();
  proto->clear_int64_val();
  proto->clear_bool_val();
  proto->clear_dcomplex_val();
  proto->clear_half_val();
  proto->clear_resource_handle_val();
  proto->clear_variant_val();
  proto->clear_uint32_val();
  proto->clear_uint64_val();
  proto->clear_float8_val();
}

Result<Variant> decode_variant(const VariantTensorDataProto& proto, ExpansionBudget& budget) {
  VariantReading reading(budget);
  TUTTI_RETURN_IF_ERROR(reading.check_depth());
  VariantData data{.type_name = proto.type_name(), .metadata = proto.metadata(), .tensors = {}};
  for (const TensorProto& held : proto.tensors()) {
    TUTTI_RETURN_IF_ERROR(reading.count_tensor());
    TUTTI_ASSIGN_OR_RETURN(Tensor tensor, decode_tensor(held, budget));
    data.tensors.push_back(std::move(tensor));
  }
  return from_variant_data(std::move(data), budget);
}

namespace {

void encode_header(const Tensor& tensor, TensorProto* proto) {
  clear_elements(proto);
  proto->set_dtype(static_cast<tensorflow::DataType>(tensor.dtype()));
  encode_shape(tensor.shape(), proto->mutable_tensor_shape());
}

// REQUIRES: check_writable() when the elements are variants.
void encode_elements(const Tensor& tensor, NestedElements nested, TensorProto* proto) {
  if (tensor.num_elements() == 0) return;
  switch (tensor.dtype()) {
    case DType::kString:
      for (const std::string& value : tensor.flat<std::string>()) proto->add_string_val(value);
      return;
    case DType::kResource:
      for (const ResourceHandle& value : tensor.flat<ResourceHandle>()) {
        ResourceHandleProto* handle = proto->add_resource_handle_val();
        handle->set_device(value.device());
        handle->set_container(value.container());
        handle->set_name(value.name());
      }
      return;
    case DType::kVariant:
      for (const Variant& value : tensor.flat<Variant>()) encode_variant(value, nested, proto->add_variant_val());
      return;
    default:
      proto->set_tensor_content(static_cast<const char*>(tensor.raw()), tensor.bytes());
  }
}

}  // namespace

void encode_variant(const Variant& variant, NestedElements nested, VariantTensorDataProto* proto) {
  VariantData data = to_variant_data(variant);
  proto->set_type_name(std::move(data.type_name));
  proto->set_metadata(std::move(data.metadata));
  for (const Tensor& tensor : data.tensors) {
    TensorProto* held = proto->add_tensors();
    encode_header(tensor, held);
    if (nested == NestedElements::kTyped && !is_object(tensor.dtype())) {
      encode_typed_numbers(tensor, held);
    } else {
      encode_elements(tensor, nested, held);
    }
  }
}

Status encode_tensor(const Tensor& tensor, TensorProto* proto) {
  encode_header(tensor, proto);
  if (tensor.dtype() == DType::kVariant) TUTTI_RETURN_IF_ERROR(check_writable(tensor));
  encode_elements(tensor, NestedElements::kPacked, proto);
  return {};
}

Status ExpansionBudget::take(std::int64_t bytes, std::string_view what) {
  if (bytes > bytes_left) {
    return resource_exhausted(what, " need ", bytes, " bytes, ", bytes_left, " of those for one message are left");
  }
  bytes_left -= bytes;
  return {};
}

}  // namespace tutti
