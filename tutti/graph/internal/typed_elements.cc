#include "tutti/graph/internal/typed_elements.h"

#include <cstdint>
#include <span>

#include "proto/tensor.pb.h"

namespace tutti {
namespace {

// Elements as numbers of type T, whatever their own: quantised types are the integers that they are made of.
template <typename T, typename List>
void append_numbers(const Tensor& tensor, std::int64_t per_element, List* list) {
  const std::span numbers(static_cast<const T*>(tensor.raw()),
                          static_cast<std::size_t>(tensor.num_elements() * per_element));
  list->Add(numbers.begin(), numbers.end());
}

template <typename T, typename List>
void append_numbers(const Tensor& tensor, List* list) {
  append_numbers<T>(tensor, 1, list);
}

}  // namespace

std::int64_t count_typed_elements(const tensorflow::TensorProto& proto, DType dtype) {
  switch (dtype) {
    case DType::kFloat:
      return proto.float_val_size();
    case DType::kDouble:
      return proto.double_val_size();
    case DType::kInt32:
    case DType::kQint32:
    case DType::kUint8:
    case DType::kQuint8:
    case DType::kUint4:
    case DType::kInt8:
    case DType::kQint8:
    case DType::kInt4:
    case DType::kInt16:
    case DType::kQint16:
    case DType::kUint16:
    case DType::kQuint16:
      return proto.int_val_size();
    case DType::kHalf:
    case DType::kBfloat16:
      return proto.half_val_size();
    case DType::kComplex64:
      return proto.scomplex_val_size() / 2;
    case DType::kComplex128:
      return proto.dcomplex_val_size() / 2;
    case DType::kInt64:
      return proto.int64_val_size();
    case DType::kBool:
      return proto.bool_val_size();
    case DType::kUint32:
      return proto.uint32_val_size();
    case DType::kUint64:
      return proto.uint64_val_size();
    case DType::kFloat8E5m2:
    case DType::kFloat8E4m3fn:
    case DType::kFloat8E4m3fnuz:
    case DType::kFloat8E4m3b11fnuz:
    case DType::kFloat8E5m2fnuz:
      return static_cast<std::int64_t>(proto.float8_val().size());
    case DType::kString:
      return proto.string_val_size();
    case DType::kResource:
      return proto.resource_handle_val_size();
    case DType::kVariant:
      return proto.variant_val_size();
    case DType::kInvalid:
      return 0;
  }
  return 0;
}

void encode_typed_numbers(const Tensor& tensor, tensorflow::TensorProto* proto) {
  switch (tensor.dtype()) {
    case DType::kFloat:
      return append_numbers<float>(tensor, proto->mutable_float_val());
    case DType::kDouble:
      return append_numbers<double>(tensor, proto->mutable_double_val());
    case DType::kInt32:
    case DType::kQint32:
      return append_numbers<std::int32_t>(tensor, proto->mutable_int_val());
    case DType::kUint8:
    case DType::kQuint8:
    case DType::kUint4:
      return append_numbers<std::uint8_t>(tensor, proto->mutable_int_val());
    case DType::kInt8:
    case DType::kQint8:
    case DType::kInt4:
      return append_numbers<std::int8_t>(tensor, proto->mutable_int_val());
    case DType::kInt16:
    case DType::kQint16:
      return append_numbers<std::int16_t>(tensor, proto->mutable_int_val());
    case DType::kUint16:
    case DType::kQuint16:
      return append_numbers<std::uint16_t>(tensor, proto->mutable_int_val());
    case DType::kHalf:
    case DType::kBfloat16:
      return append_numbers<std::uint16_t>(tensor, proto->mutable_half_val());
    case DType::kComplex64:
      return append_numbers<float>(tensor, 2, proto->mutable_scomplex_val());
    case DType::kComplex128:
      return append_numbers<double>(tensor, 2, proto->mutable_dcomplex_val());
    case DType::kInt64:
      return append_numbers<std::int64_t>(tensor, proto->mutable_int64_val());
    case DType::kBool:
      return append_numbers<bool>(tensor, proto->mutable_bool_val());
    case DType::kUint32:
      return append_numbers<std::uint32_t>(tensor, proto->mutable_uint32_val());
    case DType::kUint64:
      return append_numbers<std::uint64_t>(tensor, proto->mutable_uint64_val());
    case DType::kFloat8E5m2:
    case DType::kFloat8E4m3fn:
    case DType::kFloat8E4m3fnuz:
    case DType::kFloat8E4m3b11fnuz:
    case DType::kFloat8E5m2fnuz:
      return proto->set_float8_val(tensor.raw(), tensor.bytes());
    case DType::kString:
    case DType::kResource:
    case DType::kVariant:
    case DType::kInvalid:
      return;
  }
}

}  // namespace tutti
